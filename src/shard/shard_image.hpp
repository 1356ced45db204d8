#pragma once

#include <reprise/selector.hpp>

#include "base/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::shard {

/// The state of a chunk with steps, without its rows.
struct ChunkImage {
  std::uint32_t chunk = 0;
  std::uint32_t generation = 0;         ///< The generation of rows from `restored` on.
  std::uint32_t next_generation = 0;    ///< The generation that retiring the chunk gives it.
  std::uint32_t generation_before = 0;  ///< The generation of rows [0, restored).
  std::uint32_t restored = 0;
  std::uint32_t ingested = 0;    ///< Rows [0, ingested) were ingested.
  std::uint32_t deselected = 0;  ///< Rows [0, deselected) have left the selectors.
  std::uint32_t items = 0;       ///< Items in rows [deselected, ingested).
  std::uint32_t steps = 0;       ///< Steps in the same rows; not in a checkpoint.
  bool closed = false;
  std::uint64_t turn = 0;  ///< Its place in the eviction order of the buffer.

  /// The generation of the chunk's first row. It changes whenever the chunk is filled anew, so that
  /// together with the number of the chunk it names the chunk's contents.
  [[nodiscard]] std::uint32_t first_generation() const noexcept {
    return restored != 0 ? generation_before : generation;
  }
};

/// Stored in the place of a removed item's value. It is below every value that a selector stores.
inline constexpr float kRemoved = -1.0F;

/// The state of a shard at one moment, without the rows. The constructor reserves room for the most
/// that is possible, so that nothing is allocated under the lock; memory is taken when it is
/// touched.
struct ShardImage {
  ShardImage() = default;  // Without room.
  ShardImage(std::size_t chunk_count, std::size_t rows, std::size_t selectors, bool draws_limited);

  std::vector<ChunkImage> chunks;  ///< In eviction order.
  std::size_t items = 0;           ///< Items in all these chunks, the removed ones included.
  bool any_removed = false;        ///< Set only in images that were read from a checkpoint.
  /// The value of each item, per selector. The first selector's value of a removed item is
  /// `kRemoved`.
  std::vector<base::LazyArray<float>> stored;
  std::vector<SelectorMemory> memories;    ///< Per selector.
  base::LazyArray<std::uint32_t> draws;    ///< Per item; empty without a limit.
  std::uint64_t evicted = 0;               ///< Steps evicted so far.
  std::vector<std::uint32_t> generations;  ///< The generation of every chunk of the shard.
  std::uint32_t touched = 0;               ///< How many chunks, from the first, were used.
  std::vector<std::uint32_t> free;         ///< Free chunks, the next to be taken first.
  std::vector<std::uint32_t> open;         ///< Chunks left open, the next to be taken first.
};

}  // namespace reprise::shard
