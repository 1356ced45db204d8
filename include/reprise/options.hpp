#pragma once

#include <reprise/rate_limiter.hpp>
#include <reprise/remover.hpp>
#include <reprise/selector.hpp>
#include <reprise/selectors/fifo.hpp>
#include <reprise/selectors/proportional.hpp>
#include <reprise/selectors/uniform.hpp>
#include <reprise/storage.hpp>
#include <reprise/window.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

/// Options of a `ReplayBuffer`. Defaults never depend on the number of cores.
struct Options {
  /// Steps guaranteed resident; a full buffer holds exactly this many. Required, at least 1; with
  /// sequences at least the larger of burn_in + length and period. For several writers it should be
  /// a few chunks (chunk_steps) for each: below, old steps of a slow writer may fill it for long.
  std::size_t capacity_steps = 0;

  /// The steps that an item spans.
  Window window = Transitions{};

  /// How items are drawn. Several selectors keep their own weights over the same items;
  /// `ReplayBuffer::selector` names one by its place in this list.
  std::vector<Selector> selectors = {Proportional{}};

  /// Number of draws after which an item is exhausted: no sampler or selector draws it again. 0: no
  /// limit. A `Queue` needs a limit, and `SampleToInsertRatio::samples_per_insert` may not exceed
  /// it. An exhausted item stays in the buffer until it is evicted, before other items; updates of
  /// its priority count as stale. Steps leave a chunk from its front, so an exhausted item behind
  /// an item that may be drawn again leaves after or with that item. Once max_writers chunks of a
  /// shard have lost a part of their steps, exhausted items of its other chunks leave first only if
  /// the whole chunk is exhausted; else the remover's choice leaves, with `Fifo` the oldest step,
  /// though it may be drawn. A batch waits until all items together allow as many draws as the
  /// batch takes. If a batch exhausts items, its further draws go to the others, but
  /// `Batch::probabilities` does not take that into account. Costs 4 bytes per row, and a call of
  /// `sample` holds all shards' locks while it draws.
  std::uint32_t max_times_sampled = 0;

  /// How many versions of the policy an item may be behind; needs `Schema::version`. An item is
  /// outdated, now or on arrival, if the version of its first step is below that of
  /// `ReplayBuffer::set_version` minus max_staleness. An outdated item is not drawn any more, by
  /// any sampler or selector, and counts for no probability or total. It stays for the windows of
  /// other items and can be gathered by its key until it is evicted, before other items, as an
  /// exhausted item is (`max_times_sampled`). Without a value, items of any version are drawn. Rate
  /// limiters count the items that can be drawn, so samplers may wait, or find nothing, in a full
  /// buffer: `SampleStatus::outdated` and `Stats` report it. Costs 13 bytes per row, and O(log
  /// items) once for each item that becomes outdated.
  std::optional<std::uint64_t> max_staleness = std::nullopt;

  /// Whether items can be found by episode and position, with `ReplayBuffer::episodes`. The index
  /// has a fixed size: 8 to 16 bytes of address space per row, of which one entry of 8 bytes is
  /// used for each run of up to chunk_steps steps of an episode. Ingesting a step then also reads
  /// the header of its row, about 5 ns per step.
  bool episode_index = false;

  /// Which steps leave a full buffer: `Fifo`, another of `reprise/removers`, or your own. All but
  /// `Fifo` choose among the filled chunks of a shard, so give it several: chunk_steps well below
  /// capacity_steps / shards.
  Remover remover = Fifo{};

  /// When samplers have to wait and, with `SampleToInsertRatio` and `Queue`, writers.
  RateLimiter rate_limiter = MinSize{};

  /// The memory of the rows: main memory, or a mapped file for buffers larger than memory.
  Storage storage = Memory{};

  /// Writers alive at once. Each writer may hold a chunk that is allocated on top of the capacity,
  /// so their number also bounds the default chunk size. Each writer costs address space for 1 +
  /// shards chunks (1 + 2 * shards with max_times_sampled or max_staleness) and about 160 to 190
  /// bytes of bookkeeping for each of these. A chunk's memory is taken where it is touched. A
  /// writer also has about n_step + frame_stack, or T + frame_stack, rows of its own (and as many
  /// states of `Schema::recurrent_state`).
  std::size_t max_writers = 256;

  /// Rows per chunk, at least n_step + frame_stack, or T + frame_stack for sequences. 0 chooses: a
  /// quarter of the capacity spread over max_writers, within 64 and 2048 rows and at least 16
  /// windows. A chunk is what `Fifo` and the removers evict together (`Fifo` says what a slow
  /// writer loses by large chunks). When a writer moves to its next chunk in the middle of an
  /// episode it copies one row less than that minimum there, and so much of each such chunk is no
  /// room for new steps.
  std::size_t chunk_steps = 0;

  /// Independent parts, each with one lock, 1 to min(capacity_steps, 256). 0 chooses: 4, or 1 for
  /// buffers below 4096 steps. More shards let more learners draw at once and cost each draw.
  std::size_t shards = 0;

  /// Tag that this buffer's keys carry, below 4096, so that another buffer's keys are refused.
  /// Without it the tag is random and above 0, so that a key of zeros is refused: set it where keys
  /// must be reproducible, and where two buffers in one process must never share a tag by chance
  /// (one pair in 4095).
  std::optional<std::uint16_t> key_tag = std::nullopt;
};

/// The counters that `ReplayBuffer::stats` read. Whenever no call is in flight, committed_steps =
/// resident_steps + excess_steps + evicted_steps + pending_steps, exactly.
struct Stats {
  std::uint64_t committed_steps = 0;  ///< Steps that `commit` accepted.
  std::uint64_t evicted_steps = 0;    ///< Steps deselected to keep within the capacity.
  std::size_t resident_steps = 0;     ///< Steps with or without an item; at most capacity_steps.
  /// Steps above the capacity that are about to be evicted, while several threads ingest: at most a
  /// sixteenth of the capacity, or a chunk, and a chunk per shard. A snapshot may show more,
  /// because shards are read one after the other.
  std::size_t excess_steps = 0;
  /// Items that can be drawn, at most capacity_steps; with `Transitions` each step is one, until it
  /// is removed. Steps are pending until a call has looked at them, such as a draw, an update of
  /// priorities, `Episodes::find` or `ReplayBuffer::size`: poll `size`, not this.
  std::size_t items = 0;
  std::uint64_t pending_steps = 0;  ///< Steps with an incomplete window, or not yet ingested.
  /// Items of resident steps that are not drawn because their version is more than `max_staleness`
  /// behind, exhausted and removed ones included.
  std::size_t outdated_items = 0;
  /// Items that ever became outdated since the buffer was made or loaded, without exhausted and
  /// removed ones. Outdated items of a checkpoint count again when it is loaded, except with
  /// `max_times_sampled`.
  std::uint64_t ever_outdated_items = 0;
  std::uint64_t version = 0;  ///< What `ReplayBuffer::set_version` set last.

  std::uint64_t sampled_items = 0;    ///< Items in all batches.
  std::uint64_t sampled_batches = 0;  ///< Batches drawn.
  std::uint64_t applied_updates = 0;  ///< Keys whose item got a new priority.
  std::uint64_t stale_updates = 0;    ///< Keys of updates whose item was gone.

  std::size_t writers = 0;         ///< Writers alive now.
  std::size_t queued_chunks = 0;   ///< Chunks whose newest steps are not yet ingested.
  std::size_t retired_pinned = 0;  ///< Evicted chunks whose memory waits for a gather to end.
  std::size_t chunks = 0;          ///< Chunks in total: capacity, one per writer, slack.
  std::size_t chunks_touched = 0;  ///< Chunks that were ever used.
  std::size_t chunk_bytes = 0;     ///< Bytes of one chunk's rows.
  std::size_t reserved_bytes = 0;  ///< Address space; memory is taken only where touched.
  /// Estimate of the memory in use: rows (unless in a mapped file, whose pages the system keeps or
  /// drops as it likes), recurrent states, and bookkeeping, also of chunks that were never used.
  /// The memory of the process for a full buffer is within a tenth of this (with `RankBased` a
  /// fifth less), and up to 32 KiB per shard and selector more, because pages are partly filled.
  /// While a buffer fills, it is up to a huge page (2 MiB) more per shard and array (rows,
  /// priorities, 3 per selector). Writers, samplers (with the queue of `SamplerOptions::fresh`) and
  /// batches are not in it, nor memory that your own selector or remover does not report.
  std::size_t touched_bytes = 0;
  /// Bytes that the fields of `Schema::compress` take in the rows of the buffer, also in evicted
  /// rows whose chunks are not free yet. touched_bytes includes these bytes, and the memory of free
  /// chunks.
  std::size_t compressed_bytes = 0;
  std::size_t uncompressed_bytes = 0;  ///< What these fields would take uncompressed.
  std::size_t file_bytes = 0;          ///< Disk space that the mapped file takes; 0 without one.
  std::uint64_t closed_chunks = 0;     ///< Chunks closed, being full or nearly.
  std::uint64_t writer_ingests = 0;    ///< Times a writer took a shard's lock to make room itself.

  /// Committed steps that are neither in the newest save that has returned nor loaded; without a
  /// save or load all of them. Pending steps are among them. A crash loses these steps, and the
  /// parts of open episodes that a save leaves out (`ReplayBuffer::save`). With n_step above 1, up
  /// to n_step - 1 steps of each open episode count although a load has them, cut off there.
  std::uint64_t unsaved_steps = 0;

  WaitStats writers_for_chunk;    ///< Waits for a free chunk in `commit`.
  WaitStats writers_for_limiter;  ///< Waits for the rate limiter in `commit`.
  /// Waits in `sample` for the items that the rate limiter asks for.
  WaitStats samplers_for_items;
  WaitStats samplers_for_limiter;  ///< Waits in `sample` for the ratio of samples to inserts.

  std::size_t guests = 0;              ///< Processes attached to a `Host` of this buffer.
  std::uint64_t dead_guest_steps = 0;  ///< Steps taken from guests after their death.
  std::uint64_t cut_episodes = 0;      ///< Episodes that were truncated because their guest died.

  double samples_per_insert = 0.0;  ///< sampled_items / committed_steps, 0 before the first.
  std::string limiter;              ///< The rate limiter's state in a sentence.
};

}  // namespace reprise
