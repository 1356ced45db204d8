#pragma once

#include <reprise/batch.hpp>

#include "checks/testing.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace stress {

/// A batch, and how it was drawn.
struct Drawn {
  const reprise::Batch* batch = nullptr;
  bool by_batch = false;  ///< The largest weight is 1.
  bool without_replacement = false;
  bool of_a_pass = false;       ///< `reprise::Draws::Epoch`.
  std::uint64_t passes = 0;     ///< Completed with this batch, by this sampler.
  std::size_t fresh = 0;        ///< The first items, which nobody had drawn before.
  std::size_t second_part = 0;  ///< Where it begins, drawn by itself; 0: there is none.
  bool of_one_moment = false;   ///< All items were drawn under the locks of all shards.

  [[nodiscard]] std::size_t size() const { return batch->size(); }
  [[nodiscard]] std::span<const reprise::ItemKey> keys() const { return batch->keys(); }
  [[nodiscard]] std::span<const double> probabilities() const { return batch->probabilities(); }
  [[nodiscard]] std::span<const float> weights() const { return batch->weights(); }
};

[[nodiscard]] inline std::string words_of(reprise::ItemKey key) {
  return "key " + std::to_string(key.bits);
}

/// Its items: those of a batch that are right.
using CheckedItems = std::span<const CheckedItem>;

}  // namespace stress
