#pragma once

#include <reprise/selector.hpp>

#include "base/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::shard {

/// A chunk with items, without its rows.
struct ChunkImage {
  std::uint32_t chunk = 0;
  std::uint32_t generation = 0;         ///< Of rows from `restored` on.
  std::uint32_t next_generation = 0;    ///< Once it has been reclaimed.
  std::uint32_t generation_before = 0;  ///< Of rows [0, restored).
  std::uint32_t restored = 0;
  std::uint32_t ingested = 0;    ///< Rows [0, ingested) are decided.
  std::uint32_t deselected = 0;  ///< Rows [0, deselected) have left the selectors.
  std::uint32_t items = 0;       ///< In [deselected, ingested), by `is_item`.
  std::uint32_t steps = 0;       ///< There, items or not; not in a checkpoint.
  bool closed = false;

  /// Names what is in the chunk, together with its number: it changes whenever the chunk is filled
  /// anew.
  [[nodiscard]] std::uint32_t first_generation() const noexcept {
    return restored != 0 ? generation_before : generation;
  }
};

/// What a shard knows at one moment, without the rows. Room for as much as there can be is reserved
/// at once, so that nothing is allocated under the lock; memory is taken where touched.
struct ShardImage {
  ShardImage(std::size_t chunk_count, std::size_t rows, std::size_t selectors, bool draws_limited);

  std::vector<ChunkImage> chunks;              ///< In the order in which `Fifo` evicts.
  std::size_t items = 0;                       ///< Of all chunks.
  std::vector<base::LazyArray<float>> stored;  ///< Per selector, of the items in turn.
  std::vector<SelectorMemory> memories;        ///< Per selector.
  base::LazyArray<std::uint32_t> draws;        ///< Of the items; empty if they are not limited.
  std::uint64_t evicted = 0;                   ///< Steps, ever.
  std::vector<std::uint32_t> generations;      ///< Of all chunks.
  std::uint32_t touched = 0;                   ///< Chunks ever used: the first so many.
  std::vector<std::uint32_t> free;             ///< Reclaimed chunks, the next to be taken first.
  std::vector<std::uint32_t> open;             ///< Left open by destroyed writers, likewise.
};

}  // namespace reprise::shard
