#pragma once

#include <reprise/item_key.hpp>

#include "storage/chunk_store.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::sampler {

/// Draws that were made under one lock, in a row.
struct Run {
  std::size_t shard = 0;
  std::size_t begin = 0;  ///< Its first draw, and its place among the pinned chunks.
  std::size_t count = 0;
  std::size_t pins = 0;
  double total = 0.0;  ///< The locked total of the shard, for draws by weight.
};

/// Room for the results of draws of named items, one element per draw.
struct Room {
  std::span<ItemKey> keys;
  std::span<storage::Place> places;
  std::span<std::uint32_t> leaves;  ///< Scratch.
  std::span<std::uint32_t> pinned;  ///< Chunks; those of a run from `Run::begin` on.
};

}  // namespace reprise::sampler
