#pragma once

#include "base/memory.hpp"
#include "shard/budget.hpp"
#include "shard/row_index.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::shard {

/// The items of a shard that users removed and whose steps are still resident. Each is marked in an
/// array of this class. A mark in the place of the row's priority would not do: saves read
/// priorities without the lock, and later saves count on it that a saved chunk stays as it was.
///
/// Externally synchronised by the shard's lock.
class RemovedItems final : public RowIndex {
 public:
  RemovedItems(Budget& budget, std::size_t leaves)
      : budget_(budget), leaves_(leaves), bits_(leaves) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool has(std::uint32_t leaf) const noexcept {
    return size_ != 0 && bits_[leaf] != 0;
  }

  void leave(const Rows& rows) noexcept override {
    if (size_ == 0) {
      return;
    }
    const std::span<std::uint8_t> bits(bits_.data() + rows.first_leaf, rows.size());
    const auto removed = std::count(bits.begin(), bits.end(), std::uint8_t{1});
    std::fill(bits.begin(), bits.end(), std::uint8_t{0});
    size_ -= static_cast<std::size_t>(removed);
    budget_.add_removed(-removed);
  }
  void removed(std::uint32_t leaf, bool /*exhausted*/) noexcept override {
    bits_[leaf] = 1;
    ++size_;
    budget_.add_removed(1);
  }
  void store(std::span<const std::uint32_t> leaves, ShardImage& image,
             std::size_t at) const noexcept override {
    for (std::size_t i = 0; size_ != 0 && i < leaves.size(); ++i) {
      if (has(leaves[i])) {
        image.stored.front()[at + i] = kRemoved;
      }
    }
  }
  [[nodiscard]] Memory memory() const noexcept override { return {leaves_, 0}; }

 private:
  friend struct Audit;  // The tests' audit.

  Budget& budget_;
  const std::size_t leaves_;
  base::LazyArray<std::uint8_t> bits_;  ///< By leaf: 1 for a removed item.
  std::size_t size_ = 0;
};

}  // namespace reprise::shard
