#pragma once

#include <reprise/batch.hpp>

#include "checks/testing.hpp"
#include "testing/library.hpp"

namespace stress {

/// A batch, and how it was drawn.
struct Drawn {
  const reprise::Batch* batch = nullptr;
  bool normalised_by_batch = false;  ///< Weights are normalised by the batch, so the largest is 1.
  bool without_replacement = false;
  bool is_epoch = false;     ///< Drawn by `reprise::Draws::Epoch`.
  std::uint64_t passes = 0;  ///< Passes that this sampler had completed after the batch.
  std::size_t fresh = 0;     ///< The number of fresh items, which come first.
  /// Index at which the second part of a mixed batch begins, which was drawn separately; 0: none.
  std::size_t second_part = 0;
  bool is_snapshot = false;  ///< All items were drawn under the locks of all shards.

  [[nodiscard]] std::size_t size() const { return batch->size(); }
  [[nodiscard]] std::span<const reprise::ItemKey> keys() const { return batch->keys(); }
  [[nodiscard]] std::span<const double> probabilities() const { return batch->probabilities(); }
  [[nodiscard]] std::span<const float> weights() const { return batch->weights(); }
};

[[nodiscard]] inline std::string describe_key(reprise::ItemKey key) {
  return "key " + std::to_string(key.bits);
}

/// What WindowCheck found of each item of a batch. The other checks pass over items that are not
/// `correct`.
using CheckedItems = std::span<const CheckedItem>;

}  // namespace stress
