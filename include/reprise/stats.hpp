#pragma once

#include <reprise/waiting.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise {

/// The counters that `ReplayBuffer::stats` read. Whenever no call is in flight, committed_steps =
/// resident_steps + excess_steps + evicted_steps + pending_steps, exactly.
struct Stats {
  std::uint64_t committed_steps = 0;  ///< Steps that `commit` accepted.
  std::uint64_t evicted_steps = 0;    ///< Steps deselected to keep within the capacity.
  std::size_t resident_steps = 0;     ///< With or without an item; at most capacity_steps.
  /// Steps above the capacity that are about to be evicted, while several threads ingest: at most a
  /// sixteenth of the capacity, or a chunk, and a chunk per shard; beside them, as shards are read
  /// one after the other, a snapshot may show more.
  std::size_t excess_steps = 0;
  /// Items that can be drawn, at most capacity_steps; with `Transitions` each step is one, until it
  /// is removed.
  std::size_t items = 0;
  std::uint64_t pending_steps = 0;  ///< Committed; window incomplete, or not yet ingested.

  std::uint64_t sampled_items = 0;    ///< Items in all batches.
  std::uint64_t sampled_batches = 0;  ///< Batches drawn.
  std::uint64_t applied_updates = 0;  ///< Keys whose item got a new priority.
  std::uint64_t stale_updates = 0;    ///< Keys of updates whose item was gone.

  std::size_t writers = 0;         ///< Alive now.
  std::size_t queued_chunks = 0;   ///< Chunks that have rung and are not yet ingested.
  std::size_t retired_pinned = 0;  ///< Evicted chunks whose memory waits for a gather to end.
  std::size_t chunks = 0;          ///< Chunks in total: capacity, one per writer, slack.
  std::size_t chunks_touched = 0;  ///< Chunks that were ever used.
  std::size_t chunk_bytes = 0;     ///< Bytes of one chunk's rows.
  std::size_t reserved_bytes = 0;  ///< Address space; memory is taken only where touched.
  /// Estimate of the memory in use: rows (unless in a mapped file, whose pages the system keeps or
  /// drops as it likes), recurrent states, and bookkeeping, which fresh chunks have too. The memory
  /// of the process for a full buffer is within a tenth of this (with `RankBased` a fifth less),
  /// and up to 32 KiB per shard and selector more, because pages are partly filled. While a buffer
  /// fills, it is up to a huge page (2 MiB) more per shard and array (rows, priorities, 3 per
  /// selector). Writers, samplers (with the queue of `SamplerOptions::fresh`) and batches are not
  /// in it, nor memory that your own selector or remover does not report.
  std::size_t touched_bytes = 0;
  /// Bytes that the fields of `Schema::compress` take in the rows of the buffer, evicted ones in
  /// chunks that are not free yet included. touched_bytes has them, with the memory of chunks that
  /// are free.
  std::size_t compressed_bytes = 0;
  std::size_t uncompressed_bytes = 0;  ///< What these fields would take as they are.
  std::size_t file_bytes = 0;          ///< Disk space that the mapped file takes; 0 without one.
  std::uint64_t closed_chunks = 0;     ///< Chunks closed, being full or nearly.
  std::uint64_t writer_ingests = 0;    ///< Times a writer took a shard's lock to make room itself.

  WaitStats writers_for_chunk;    ///< Waits for a free chunk in `commit`.
  WaitStats writers_for_limiter;  ///< Waits for the rate limiter in `commit`.
  /// Waits in `sample` for the items that the rate limiter asks for.
  WaitStats samplers_for_items;
  WaitStats samplers_for_limiter;  ///< Waits in `sample` for the ratio of samples to inserts.

  std::size_t guests = 0;              ///< Processes attached to a `Host` of this buffer.
  std::uint64_t dead_guest_steps = 0;  ///< Steps taken from guests after their death.
  std::uint64_t cut_episodes = 0;      ///< Episodes that ended as truncated as their guest died.

  double samples_per_insert = 0.0;  ///< sampled_items / committed_steps, 0 before the first.
  std::string limiter;              ///< The rate limiter's state in a sentence.
};

}  // namespace reprise
