#pragma once

#include "base/memory.hpp"
#include "segment_tree/segment_kernels.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::segment_tree {

/// Leaves, levels and summaries of a `SegmentTree`, which has checked every argument.
///
/// A cache line of leaves lies below each node of the lowest level, eight nodes below each node
/// above it. Sums and extremes are always recomputed from all children (invariant I9): equal leaves
/// give equal bits, whatever the history and the instruction set.
template <class Leaf>
class SegmentStore {
 public:
  static constexpr std::size_t kMaxCapacity = std::size_t{1} << 40U;

  /// All leaves 0; memory is touched lazily. `capacity` is 1 to kMaxCapacity.
  explicit SegmentStore(std::size_t capacity);
  SegmentStore(const SegmentStore&) = delete;
  SegmentStore& operator=(const SegmentStore&) = delete;
  ~SegmentStore() = default;

  [[nodiscard]] std::span<const Leaf> leaves() const noexcept {
    return {leaves_.data(), capacity_};
  }
  [[nodiscard]] double total() const noexcept { return root().sum[0]; }
  [[nodiscard]] Leaf min() const noexcept { return root().min[0]; }
  [[nodiscard]] Leaf max() const noexcept { return root().max[0]; }
  // Queries over the leaves from `first` to before `last`.
  [[nodiscard]] double sum(std::size_t first, std::size_t last) const noexcept {
    return first == last ? 0.0 : segment_kernels<Leaf>().sum(range(first, last));
  }
  [[nodiscard]] Leaf min(std::size_t first, std::size_t last) const noexcept {
    return first == last ? kMinOfNone<Leaf> : segment_kernels<Leaf>().min(range(first, last));
  }
  [[nodiscard]] Leaf max(std::size_t first, std::size_t last) const noexcept {
    return first == last ? -kMinOfNone<Leaf> : segment_kernels<Leaf>().max(range(first, last));
  }

  /// Sets leaves, sorted or not; the last of duplicates counts. Throws `std::bad_alloc`, before
  /// anything is changed, if a batch is larger than those before and there is no memory for its
  /// list.
  void assign(std::span<const std::size_t> leaves, std::span<const Leaf> values);

  // Changes of the leaves from `first` to before `last`.
  void assign_range(std::size_t first, std::span<const Leaf> values) noexcept;
  void fill(std::size_t first, std::size_t last, Leaf value) noexcept;
  /// leaf * factor + value; value is not -0.
  void transform(std::size_t first, std::size_t last, Leaf factor, Leaf value) noexcept;

  /// The leaf on which each target falls. Needs leaves of at least 0, one of them above 0, and
  /// targets of at least 0.
  void find(std::span<const double> targets, std::span<std::size_t> leaves) const noexcept;

 private:
  using Group = SegmentGroup<Leaf>;
  static constexpr std::size_t kFanout = Group::kNodes;
  /// Below the root lie 8 * 8^13 lines, which is more than kMaxCapacity leaves.
  static constexpr std::size_t kMaxLevels = 15;

  [[nodiscard]] const Group& root() const noexcept { return *level_[levels_ - 1]; }
  [[nodiscard]] std::uint8_t* waiting_of(std::size_t level) noexcept {
    return waiting_.data() + (level_[level] - groups_.data());
  }
  [[nodiscard]] SegmentRange<Leaf> range(std::size_t first, std::size_t last) const noexcept {
    return {leaves(), {level_.data(), levels_}, first, last};
  }

  /// Calls change(part, its first leaf) for the parts of the range, and recomputes the nodes above.
  template <class Change>
  void write(std::size_t first, std::size_t last, const Change& change) noexcept;

  std::size_t capacity_;
  std::size_t levels_ = 0;        ///< From the lowest up; the highest has one node, the root.
  base::LazyArray<Leaf> leaves_;  ///< Whole lines; those beyond the capacity stay 0.
  base::LazyArray<Group> groups_;
  std::array<Group*, kMaxLevels> level_{};  ///< The first group of each level.
  /// Per group, a bit for each node that `assign` still has to recompute; 0 between calls.
  base::LazyArray<std::uint8_t> waiting_;
  std::vector<std::size_t> nodes_;  ///< Scratch of `assign`.
};

extern template class SegmentStore<float>;
extern template class SegmentStore<double>;

}  // namespace reprise::segment_tree
