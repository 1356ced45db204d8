#pragma once

#include "base/memory.hpp"
#include "tree/kernels.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::tree {

/// Weights of a fixed number of leaves, drawn in proportion.
///
/// Leaves are floats, 16 below each node of the lowest level; above it each node has 8 children.
/// Sums are doubles and always recomputed from the children (invariant I9): equal weights give
/// equal bits, whatever the history and the instruction set.
///
/// A denormal weight is stored as 2^-126: a thread that takes denormal numbers for 0 would find it
/// to be 0 where another one found it to be above, and draw any leaf (invariant I4).
///
/// Externally synchronised. Every weight given is finite and at least 0. Nothing allocates after
/// construction.
class WeightTree {
 public:
  /// At most 2^32 leaves, all of weight 0; memory is touched lazily. Throws `std::bad_alloc`.
  explicit WeightTree(std::size_t leaves);

  [[nodiscard]] std::size_t leaves() const noexcept { return leaf_count_; }
  /// The bytes of memory that a tree of this many leaves reserves.
  [[nodiscard]] static std::size_t bytes(std::size_t leaves) noexcept;
  /// Advises the system, before any leaf is set, that the first `leaves` leaves will be.
  void expect_leaves(std::size_t leaves) const noexcept;

  /// Sum of all weights.
  [[nodiscard]] double total() const noexcept { return root().sum[0]; }
  /// Smallest weight above 0; infinity if there is none.
  [[nodiscard]] float min_positive() const noexcept;
  /// Largest weight; 0 if there is none.
  [[nodiscard]] float max() const noexcept { return root().bounds[kFanout]; }
  [[nodiscard]] float weight(std::uint32_t leaf) const noexcept { return leaves_[leaf]; }
  /// Sum over consecutive leaves; 0 exactly if all weigh 0. O(log leaves).
  [[nodiscard]] double sum_run(std::size_t first, std::size_t count) const noexcept;

  /// Whether each of these leaves weighs more than 0.
  [[nodiscard]] bool all_positive(std::span<const std::uint32_t> leaves) const noexcept;

  /// Sets consecutive leaves. Cost: each ancestor is recomputed once.
  void assign_run(std::uint32_t first, std::span<const float> weights) noexcept;
  /// Sets consecutive leaves to 0.
  void clear_run(std::uint32_t first, std::size_t count) noexcept;
  /// Sets leaves, sorted or not; the last of duplicates counts. Cost: each block of 512 leaves
  /// recomputes each ancestor about once; nearly sorted batches are cheapest.
  void assign(std::span<const std::uint32_t> leaves, std::span<const float> weights) noexcept;

  /// Calls `change` with the first `count` leaves as one span, of which it may set any, to 0 or at
  /// least 2^-126. Cost:
  /// O(count).
  template <class Change>
  void change_first(std::size_t count, const Change& change) noexcept {
    change(std::span(leaves_.data(), count));
    refresh_run(0, count);
  }

  /// Finds, for each target in [0, total), the leaf on which it falls and that leaf's weight.
  /// Targets are overwritten; those outside the range are clamped to it. Needs total() > 0, and
  /// then never finds a leaf of weight 0, whatever the rounding (invariant I4).
  void find(std::span<double> targets, std::span<std::uint32_t> leaves,
            std::span<float> weights) const noexcept;

 private:
  /// A tree of 11 levels has up to 16 * 8^10 leaves, which is more than 2^32.
  static constexpr std::size_t kMaxLevels = 11;

  struct Level {
    std::size_t first_group = 0;
    std::size_t nodes = 0;
  };
  /// Levels from the lowest up; the highest has one node, the root.
  struct Shape {
    explicit Shape(std::size_t leaves) noexcept;
    std::array<Level, kMaxLevels> level;
    std::size_t levels = 0;
    std::size_t groups = 0;
  };

  [[nodiscard]] const Group& root() const noexcept { return groups_[shape_.groups - 1]; }
  [[nodiscard]] Group* groups_of(std::size_t level) noexcept {
    return groups_.data() + shape_.level[level].first_group;
  }
  [[nodiscard]] Prefixes* prefixes_of(std::size_t level) noexcept {
    return prefixes_.data() + shape_.level[level].first_group;
  }
  [[nodiscard]] const Prefixes* prefixes_of(std::size_t level) const noexcept {
    return prefixes_.data() + shape_.level[level].first_group;
  }
  /// Recomputes these nodes of the lowest level and their ancestors. The list is overwritten.
  void refresh(std::span<std::uint32_t> nodes) noexcept;
  void refresh_run(std::size_t first, std::size_t count) noexcept;

  std::size_t leaf_count_;
  Shape shape_;
  base::LazyArray<float> leaves_;
  base::LazyArray<Group> groups_;
  base::LazyArray<Prefixes> prefixes_;  ///< The prefix sums of each group but the root's.
};

}  // namespace reprise::tree
