#pragma once

#include "base/divider.hpp"
#include "base/memory.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace reprise::tree {

/// Values of a fixed number of leaves, and the largest value, or 0 if no value is above 0. Each
/// node has one cache line of children.
///
/// Externally synchronised. Nothing allocates after construction.
template <class Value>
class LargestTree {
 public:
  /// All leaves are 0; memory is touched lazily. Throws `std::bad_alloc`.
  explicit LargestTree(std::size_t leaves)
      : shape_(std::max<std::size_t>(leaves, 1)), values_(shape_.size) {}

  /// The bytes of memory that a tree of this many leaves reserves.
  [[nodiscard]] static std::size_t bytes(std::size_t leaves) noexcept {
    return Shape(std::max<std::size_t>(leaves, 1)).size * sizeof(Value);
  }

  /// Advises the system, before any leaf is set, that the first `leaves` leaves will be.
  void expect_leaves(std::size_t leaves) const noexcept { values_.expect_full(0, leaves); }

  [[nodiscard]] Value operator[](std::size_t leaf) const noexcept { return values_[leaf]; }
  [[nodiscard]] Value largest() const noexcept { return values_[shape_.first[shape_.levels - 1]]; }
  /// The first leaf with the largest value. O(log leaves).
  [[nodiscard]] std::uint32_t largest_leaf() const noexcept {
    const Value value = largest();
    std::size_t node = 0;
    for (std::size_t level = shape_.levels - 1; level-- > 0;) {
      node = node * kFanout + first_of(equal_children(children(level, node), value));
    }
    return static_cast<std::uint32_t>(node);
  }
  /// Sets the first leaf with the largest value, which must be above 0, to `value`. Returns the
  /// leaf. O(log leaves).
  std::uint32_t replace_largest(Value value) noexcept {
    const Value before = largest();
    // For each level, the largest of the other children. It is computed on the way down, so that
    // the way up reads no memory.
    std::array<Value, kMaxLevels> others;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    std::size_t node = 0;
    for (std::size_t level = shape_.levels - 1; level-- > 0;) {
      const Value* const child = children(level, node);
      const unsigned equal = equal_children(child, before);
      std::array<Value, kFanout> other;  // NOLINT(cppcoreguidelines-pro-type-member-init)
      for (std::size_t i = 0; i < kFanout; ++i) {
        other[i] = child[i] == before ? Value{0} : child[i];
      }
      others[level] = (equal & (equal - 1)) == 0 ? largest_of(other.data()) : before;
      node = node * kFanout + first_of(equal);
    }
    const auto leaf = static_cast<std::uint32_t>(node);
    values_[leaf] = value;
    for (std::size_t level = 1; level < shape_.levels; ++level) {
      node /= kFanout;
      value = std::max(value, others[level - 1]);
      values_[shape_.first[level] + node] = value;
    }
    return leaf;
  }

  /// Sets consecutive leaves. O(count + log leaves).
  void assign_run(std::size_t first, std::span<const Value> values) noexcept {
    std::copy(values.begin(), values.end(), values_.data() + first);
    refresh_run(first, values.size());
  }
  void clear_run(std::size_t first, std::size_t count) noexcept {
    std::fill_n(values_.data() + first, count, Value{0});
    refresh_run(first, count);
  }

  /// Prefetches the memory that `assign` changes first.
  void prefetch(std::size_t leaf) const noexcept { __builtin_prefetch(&values_[leaf], 1); }
  /// Sets a leaf. O(log leaves), and less if the largest values do not change.
  void assign(std::size_t leaf, Value value) noexcept {
    Value before = std::exchange(values_[leaf], value);
    std::size_t node = leaf;
    for (std::size_t level = 1; level < shape_.levels; ++level) {
      node /= kFanout;
      Value& largest = values_[shape_.first[level] + node];
      if (value <= largest) {
        if (before < largest) {
          return;  // Another child is the largest.
        }
        value = largest_child(level, node);
        if (value == largest) {
          return;  // The levels above stay the same too.
        }
      }
      before = std::exchange(largest, value);
    }
  }

 private:
  static constexpr std::size_t kFanout = 64 / sizeof(Value);
  /// Enough for all leaves with 32-bit numbers: below the root, 11 levels of 8 children.
  static constexpr std::size_t kMaxLevels = 12;

  /// The first element of each level in one array, the leaves first and the root last, each level
  /// padded to whole nodes. Even one leaf has a root above it, which is never below 0.
  struct Shape {
    explicit Shape(std::size_t leaves) noexcept {
      for (std::size_t nodes = leaves; levels < 2 || nodes != 1;) {
        nodes = levels == 0 ? leaves : base::divide_up(nodes, kFanout);
        first[levels++] = size;
        size += base::divide_up(nodes, kFanout) * kFanout;
      }
    }
    std::array<std::size_t, kMaxLevels> first{};
    std::size_t levels = 0;
    std::size_t size = 0;
  };

  /// The children of a node, which are at `level`.
  [[nodiscard]] const Value* children(std::size_t level, std::size_t node) const noexcept {
    return values_.data() + shape_.first[level] + node * kFanout;
  }
  /// Sets a bit for each child that has this value. Branches would be predicted badly.
  [[nodiscard]] static unsigned equal_children(const Value* child, Value value) noexcept {
    unsigned equal = 0;
    for (std::size_t i = 0; i < kFanout; ++i) {
      equal |= (child[i] == value ? 1U : 0U) << i;
    }
    return equal;
  }
  [[nodiscard]] static std::size_t first_of(unsigned equal) noexcept {
    return static_cast<std::size_t>(__builtin_ctz(equal));
  }
  [[nodiscard]] Value largest_child(std::size_t level, std::size_t node) const noexcept {
    return largest_of(children(level - 1, node));
  }
  /// The largest of a node's children, or 0. Compared in pairs, so that comparisons overlap.
  [[nodiscard]] static Value largest_of(const Value* child) noexcept {
    std::array<Value, kFanout / 2> largest;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    for (std::size_t i = 0; i < largest.size(); ++i) {
      largest[i] = std::max(child[i], child[i + largest.size()]);
    }
    for (std::size_t left = largest.size() / 2; left != 0; left /= 2) {
      for (std::size_t i = 0; i < left; ++i) {
        largest[i] = std::max(largest[i], largest[i + left]);
      }
    }
    return std::max(largest[0], Value{0});
  }
  void refresh_run(std::size_t first, std::size_t count) noexcept {
    if (count == 0) {
      return;
    }
    std::size_t last = first + count - 1;
    for (std::size_t level = 1; level < shape_.levels; ++level) {
      first /= kFanout;
      last /= kFanout;
      for (std::size_t node = first; node <= last; ++node) {
        values_[shape_.first[level] + node] = largest_child(level, node);
      }
    }
  }

  Shape shape_;
  base::LazyArray<Value> values_;
};

}  // namespace reprise::tree
