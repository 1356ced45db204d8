#pragma once

#include "base/memory.hpp"
#include "tree/segment_kernels.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::tree {

/// Leaves, levels and summaries of a `SegmentTree`, which has checked every argument.
///
/// A cache line of leaves lies below each node of the lowest level, eight nodes below each node
/// above it. Summaries are always recomputed from all children (invariant I9): equal leaves give
/// equal bits, whatever the history and the instruction set.
template <class Leaf>
class SegmentStore {
 public:
  static constexpr std::size_t kMaxCapacity = std::size_t{1} << 40U;

  /// All leaves 0; memory is touched lazily. `capacity` is 1 to kMaxCapacity.
  explicit SegmentStore(std::size_t capacity);

  [[nodiscard]] std::span<const Leaf> leaves() const noexcept {
    return {leaves_.data(), capacity_};
  }
  [[nodiscard]] Summary<Leaf> root() const noexcept { return node(levels_ - 1, 0); }
  /// Of the leaves from `first` to before `last`; bit for bit the root's if that is all of them.
  [[nodiscard]] Summary<Leaf> range(std::size_t first, std::size_t last) const noexcept;

  /// Sets leaves in any order; the last of duplicates wins. Throws `std::bad_alloc`, before
  /// anything is changed, if there is no memory for the list of a batch larger than those before.
  void assign(std::span<const std::size_t> leaves, std::span<const Leaf> values);

  // The leaves from `first` to before `last`.
  void assign_range(std::size_t first, std::span<const Leaf> values) noexcept;
  void fill(std::size_t first, std::size_t last, Leaf value) noexcept;
  void scale(std::size_t first, std::size_t last, Leaf factor) noexcept;
  void add(std::size_t first, std::size_t last, Leaf value) noexcept;

  /// The leaf on which each target falls. Needs leaves of at least 0, one of them above 0, and
  /// targets of at least 0.
  void find(std::span<const double> targets, std::span<std::size_t> leaves) const noexcept;

 private:
  using Group = SegmentGroup<Leaf>;
  static constexpr std::size_t kFanout = Group::kNodes;
  /// Below the root lie 8 * 8^13 lines, which is more than kMaxCapacity leaves.
  static constexpr std::size_t kMaxLevels = 15;

  struct Level {
    std::size_t first_group = 0;
    std::size_t nodes = 0;
  };

  [[nodiscard]] Group* groups_of(std::size_t level) noexcept {
    return groups_.data() + level_[level].first_group;
  }
  [[nodiscard]] const Group* groups_of(std::size_t level) const noexcept {
    return groups_.data() + level_[level].first_group;
  }
  [[nodiscard]] std::uint8_t* waiting_of(std::size_t level) noexcept {
    return waiting_.data() + level_[level].first_group;
  }
  [[nodiscard]] Summary<Leaf> node(std::size_t level, std::size_t number) const noexcept {
    const Group& group = groups_of(level)[number / kFanout];
    const std::size_t slot = number % kFanout;
    return {group.sum[slot], group.min[slot], group.max[slot]};
  }

  /// Calls change(part, its first leaf) for parts of the range, and recomputes the nodes above.
  template <class Change>
  void write(std::size_t first, std::size_t last, const Change& change) noexcept;

  std::size_t capacity_;
  std::size_t levels_ = 0;  ///< From the lowest up; the highest has one node, the root.
  std::array<Level, kMaxLevels> level_{};
  base::LazyArray<Leaf> leaves_;  ///< Whole lines; those beyond the capacity stay 0.
  base::LazyArray<Group> groups_;
  /// Per group, what of it waits to be recomputed during `assign`; 0 between calls.
  base::LazyArray<std::uint8_t> waiting_;
  std::vector<std::size_t> nodes_;  ///< Scratch of `assign`.
};

extern template class SegmentStore<float>;
extern template class SegmentStore<double>;

}  // namespace reprise::tree
