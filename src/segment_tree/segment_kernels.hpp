#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace reprise::segment_tree {

/// The minimum of no leaves; their maximum is -kMinOfNone.
template <class Leaf>
inline constexpr Leaf kMinOfNone = std::numeric_limits<Leaf>::infinity();

/// Leaves below a node of the lowest level: one cache line of them.
template <class Leaf>
inline constexpr std::size_t kLine = 64 / sizeof(Leaf);

/// 0 for denormal numbers and -0, other numbers as they are. A thread that takes denormal numbers
/// for 0 would compute other sums of them than the tree has, and find leaves that are not there.
template <class Leaf>
[[nodiscard]] inline Leaf as_stored(Leaf value) noexcept {
  return std::abs(value) >= std::numeric_limits<Leaf>::min() ? value : Leaf{0};
}

/// Eight sibling nodes. Places beyond a level's last node hold the sum and the extremes of no
/// leaves.
template <class Leaf>
struct alignas(64) SegmentGroup {
  static constexpr std::size_t kNodes = 8;  ///< One cache line of sums.
  double sum[kNodes];
  Leaf min[kNodes];
  Leaf max[kNodes];
};

/// A range of leaves, which is not empty, and the tree that has them, for queries.
template <class Leaf>
struct SegmentRange {
  std::span<const Leaf> leaves;
  std::span<const SegmentGroup<Leaf>* const> levels;  ///< From the lowest to the root's.
  std::size_t first = 0;
  std::size_t last = 0;  ///< One beyond the last leaf.
};

/// The loops of a segment tree, for the best instruction set of the machine. Sums always associate
/// in one way, halves onto each other, so that every instruction set gives the same bits.
template <class Leaf>
struct SegmentKernels {
  using Group = SegmentGroup<Leaf>;

  /// Recomputes nodes of the lowest level, numbered through all of `to`, from their lines of
  /// `leaves`, whose size need not be a multiple of a line. Invariant I9: from all children, never
  /// by differences.
  void (*summarize_lines)(std::span<const Leaf> leaves, std::span<const std::size_t> nodes,
                          Group* to);
  /// Recomputes nodes of the level `to` from all of their children, the groups of the level `from`
  /// (invariant I9).
  void (*summarize_groups)(const Group* from, std::span<const std::size_t> nodes, Group* to);

  /// Moves each target one level down. In: `nodes` holds groups of `level`; out: the child on which
  /// the target falls, whose sum is above 0. `targets` then holds the position within that child,
  /// at least 0 and by rounding perhaps beyond the child's sum. The memory at `below` + child *
  /// `stride` bytes is prefetched for the next step down.
  void (*descend)(const Group* level, std::span<double> targets, std::size_t* nodes,
                  const void* below, std::size_t stride);
  /// The last step down. In: `nodes` holds nodes of the lowest level; out: the leaf, which is above
  /// 0.
  void (*find_leaf)(const Leaf* leaves, std::span<const double> targets, std::size_t* nodes);

  /// Sum of all leaves of the range; for the range of all leaves it is the root's, bit for bit.
  double (*sum)(const SegmentRange<Leaf>& range);
  Leaf (*min)(const SegmentRange<Leaf>& range);
  Leaf (*max)(const SegmentRange<Leaf>& range);

  /// Sets each leaf to leaf * factor + value, as it is stored.
  void (*transform)(std::span<Leaf> leaves, Leaf factor, Leaf value);
};

/// `Leaf` is float or double.
template <class Leaf>
[[nodiscard]] const SegmentKernels<Leaf>& segment_kernels() noexcept;

}  // namespace reprise::segment_tree
