#pragma once

#include "tree/largest_tree.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::tree {

/// Keys of a fixed number of leaves, and the leaf with the largest key.
///
/// A key is above 0; 0 says that a leaf has none. A hidden key counts as none until it is shown: it
/// is stored as its complement, below 0.
///
/// Externally synchronised. Nothing allocates after construction.
class KeyTree {
 public:
  /// No leaf has a key; memory is touched lazily. Throws `std::bad_alloc`.
  explicit KeyTree(std::size_t leaves) : keys_(leaves) {}

  /// Memory that a tree of so many leaves reserves.
  [[nodiscard]] static std::size_t bytes(std::size_t leaves) noexcept {
    return LargestTree<std::int64_t>::bytes(leaves);
  }

  /// Advice about pages, before any leaf is set: the first so many leaves will be set.
  void expect_leaves(std::size_t leaves) const noexcept { keys_.expect_leaves(leaves); }

  /// Leaves whose key is neither 0 nor hidden.
  [[nodiscard]] std::size_t visible() const noexcept { return visible_; }
  /// Below 0 if the key is hidden.
  [[nodiscard]] std::int64_t key(std::uint32_t leaf) const noexcept { return keys_[leaf]; }
  [[nodiscard]] bool is_visible(std::uint32_t leaf) const noexcept { return keys_[leaf] > 0; }

  /// The largest key, O(1), and the first leaf that has it, O(log leaves); 0 if none is visible.
  [[nodiscard]] std::int64_t best() const noexcept { return keys_.largest(); }
  [[nodiscard]] std::uint32_t best_leaf() const noexcept { return keys_.largest_leaf(); }

  /// Sets consecutive leaves; keys are at least 0. O(count + log leaves).
  void assign_run(std::uint32_t first, std::span<const std::int64_t> keys) noexcept {
    visible_ -= visible_of(first, keys.size());
    keys_.assign_run(first, keys);
    visible_ += visible_of(first, keys.size());
  }
  void clear_run(std::uint32_t first, std::size_t count) noexcept {
    visible_ -= visible_of(first, count);
    keys_.clear_run(first, count);
  }

  /// O(log leaves), and less if the largest keys stay the same.
  void assign(std::uint32_t leaf, std::int64_t key) noexcept {
    visible_ -= is_visible(leaf) ? 1U : 0U;
    visible_ += key > 0 ? 1U : 0U;
    keys_.assign(leaf, key);
  }
  /// A leaf without a key, or one that is hidden (shown) already, stays as it is.
  void hide(std::uint32_t leaf) noexcept {
    if (keys_[leaf] > 0) {
      assign(leaf, ~keys_[leaf]);
    }
  }
  void show(std::uint32_t leaf) noexcept {
    if (keys_[leaf] < 0) {
      assign(leaf, ~keys_[leaf]);
    }
  }

 private:
  [[nodiscard]] std::size_t visible_of(std::size_t first, std::size_t count) const noexcept {
    std::size_t visible = 0;
    for (std::size_t leaf = first; leaf < first + count; ++leaf) {
      visible += keys_[leaf] > 0 ? 1U : 0U;
    }
    return visible;
  }

  LargestTree<std::int64_t> keys_;
  std::size_t visible_ = 0;
};

}  // namespace reprise::tree
