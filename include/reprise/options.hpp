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
#include <vector>

namespace reprise {

/// Options of a `ReplayBuffer`. Defaults never depend on the number of cores.
struct Options {
  /// Steps guaranteed resident; a full buffer holds exactly this many. Required, at least 1; with
  /// sequences at least the larger of burn_in + length and period.
  std::size_t capacity_steps = 0;

  /// The rows that an item spans.
  Window window = Transitions{};

  /// How items are drawn. Several selectors keep their own weights over the same items;
  /// `ReplayBuffer::selector` names one by its place in this list.
  std::vector<Selector> selectors = {Proportional{}};

  /// Number of draws after which an item is exhausted: no sampler or selector draws it again. 0: no
  /// limit. A `Queue` needs one, and `SampleToInsertRatio::samples_per_insert` is at most that. An
  /// exhausted item stays in the buffer until it is evicted, before other items; updates of its
  /// priority count as stale. Steps leave a chunk from its front, so an exhausted item behind one
  /// that may be drawn again waits for it, or leaves with it. A batch waits until the items admit
  /// as many draws as it takes. Costs 4 bytes per row, and a call of `sample` holds all shards'
  /// locks while it draws.
  std::uint32_t max_times_sampled = 0;

  /// Whether items can be found by episode and position, with `ReplayBuffer::episodes`. The index
  /// has a fixed size: 8 to 16 bytes of address space per row, of which one entry of 8 bytes is
  /// used for each run of up to chunk_steps steps of an episode. Ingesting a step then also reads
  /// the head of its row, about 5 ns per step.
  bool episode_index = false;

  /// Which steps leave a full buffer: `Fifo`, another of `reprise/removers`, or your own. All but
  /// `Fifo` choose among the filled chunks of a shard, so give it several: chunk_steps well below
  /// capacity_steps / shards.
  Remover remover = Fifo{};

  /// When samplers have to wait and, with `SampleToInsertRatio` and `Queue`, writers.
  RateLimiter rate_limiter = MinSize{};

  /// The memory of the rows: main memory, or a mapped file for buffers larger than memory.
  Storage storage = Memory{};

  /// Writers alive at once. Each may hold a chunk that is allocated on top of the capacity, so this
  /// also bounds the default chunk size. Each costs address space for 1 + shards chunks (1 + 2 *
  /// shards with max_times_sampled) and about 160 to 190 bytes of bookkeeping for each of these. A
  /// chunk's memory is taken where it is touched. A writer also has about n_step + frame_stack, or
  /// T + frame_stack, rows of its own (and as many states of `Schema::recurrent_state`).
  std::size_t max_writers = 256;

  /// Rows per chunk, at least n_step + frame_stack, or T + frame_stack for sequences. 0 chooses: a
  /// quarter of the capacity spread over max_writers, within 64 and 2048 rows and at least 16
  /// windows. A chunk is what `Fifo` and the removers evict together (see there what a slow writer
  /// loses by large ones). When a writer moves to its next chunk in the middle of an episode it
  /// copies one row less than that minimum, so that share of the memory is lost to context.
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

}  // namespace reprise
