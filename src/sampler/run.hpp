#pragma once

#include <cstddef>

namespace reprise::sampler {

/// Draws that were made under one lock, in a row.
struct Run {
  std::size_t shard = 0;
  std::size_t begin = 0;  ///< Its first draw, and its place among the pinned chunks.
  std::size_t count = 0;
  std::size_t pins = 0;
  double total = 0.0;  ///< The locked total of the shard, for draws by weight.
};

}  // namespace reprise::sampler
