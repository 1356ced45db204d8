#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace reprise {

namespace segment_tree {
template <class Leaf>
struct SegmentStore;
}  // namespace segment_tree

/// A segment tree on its own, without a buffer: a fixed number of leaves, float or double, with
/// sums, minima and maxima over any range of them, and the search by prefix sums that draws in
/// proportion (Schaul et al., "Prioritized Experience Replay", 2016, appendix B.2.1).
///
///   reprise::SegmentTree<float> tree(6);
///   tree.assign_range(0, std::vector{1.0F, 7.0F, 2.0F, 5.0F, 6.0F, 3.0F});
///   tree.sum(1, 4);               // 14 = 7 + 2 + 5
///   tree.find_prefix_sum(9.0);    // 2, for 1 + 7 <= 9 < 1 + 7 + 2
///
/// Leaves are 0 at first and may be any finite number; leaves of type double are at most 2^980
/// (about 1e295) in magnitude, so that no sum is too large. -0 is stored as 0, and so are denormal
/// numbers, below 2^-126 in magnitude (2^-1022 for double), which some threads take for 0. A range
/// [first, last) ends before `last` and may be empty. Sums are doubles and always computed from the
/// leaves, never corrected by differences: there is no drift, and equal leaves give equal bits
/// whatever the history and the machine's instruction set.
///
/// Thread safety: const methods from any thread while nobody changes the tree.
/// Errors: `std::invalid_argument` naming argument, place, value and what is allowed, for a wrong
/// range, leaf or size, for a value that is not finite, and for a `scale` or `add` after which a
/// leaf would not be finite. Everything is checked first: a call that throws has changed nothing.
/// Cost: leaves lie 64 bytes to a node and nodes have 8 children; a range costs O(log capacity) to
/// ask and O(its leaves + log capacity) to change. Memory: that of the leaves and 30% more for
/// float, 45% more for double, touched lazily.
///
/// A tree that was moved from can only be assigned to and destroyed.
template <class Leaf>
class SegmentTree {
 public:
  /// `capacity` leaves, 1 to 2^40 and not necessarily a power of two. Throws `std::bad_alloc` if
  /// the address space cannot be had.
  explicit SegmentTree(std::size_t capacity);
  ~SegmentTree();
  SegmentTree(SegmentTree&& other) noexcept;
  SegmentTree& operator=(SegmentTree&& other) noexcept;
  SegmentTree(const SegmentTree&) = delete;
  SegmentTree& operator=(const SegmentTree&) = delete;

  /// Number of leaves.
  [[nodiscard]] std::size_t capacity() const noexcept;
  /// All leaves in order, valid until the tree is destroyed. Do not pass them to calls that change
  /// the tree.
  [[nodiscard]] std::span<const Leaf> leaves() const noexcept;
  /// One leaf.
  [[nodiscard]] Leaf leaf(std::size_t leaf) const;

  /// Sum of all leaves, in constant time.
  [[nodiscard]] double total() const noexcept;
  /// Smallest leaf, in constant time.
  [[nodiscard]] Leaf min() const noexcept;
  /// Largest leaf, in constant time.
  [[nodiscard]] Leaf max() const noexcept;

  /// Sum of a range. An empty range has the sum 0, the minimum infinity and the maximum -infinity.
  [[nodiscard]] double sum(std::size_t first, std::size_t last) const;
  /// Smallest leaf of a range.
  [[nodiscard]] Leaf min(std::size_t first, std::size_t last) const;
  /// Largest leaf of a range.
  [[nodiscard]] Leaf max(std::size_t first, std::size_t last) const;

  /// Assigns one leaf.
  void assign(std::size_t leaf, Leaf value);
  /// Assigns values[i] to leaves[i], which may be unsorted; the last of duplicates counts. Each
  /// ancestor is recomputed once, however many leaves below it change. Throws `std::bad_alloc`,
  /// with nothing changed, if a batch is larger than those before and there is no memory for 8
  /// bytes per leaf of it.
  void assign(std::span<const std::size_t> leaves, std::span<const Leaf> values);
  /// Assigns `values` to the leaves from `first` on.
  void assign_range(std::size_t first, std::span<const Leaf> values);
  /// Assigns `value` to each leaf of the range.
  void fill(std::size_t first, std::size_t last, Leaf value);
  /// Multiplies each leaf of the range by the factor, rounded to Leaf; a denormal product becomes
  /// 0.
  void scale(std::size_t first, std::size_t last, Leaf factor);
  /// Adds the value to each leaf of the range, rounded to Leaf; a denormal sum becomes 0.
  void add(std::size_t first, std::size_t last, Leaf value);

  /// The leaf i on which the target falls: the sum of the leaves before i is at most the target,
  /// and the sum up to leaf i is above it (`find_prefixsum_idx` of OpenAI Baselines). The sums of
  /// this search are rounded as doubles are, and exact for whole leaves; the leaf found is always
  /// above 0.
  ///
  /// Targets are 0 to total(). The total itself falls on the last leaf above 0, and so does a
  /// target that exceeds the total by at most 1e-9 of it, because callers compute targets with
  /// rounding. Errors: `std::invalid_argument` for another target, and if some leaf is negative or
  /// no leaf is above 0.
  [[nodiscard]] std::size_t find_prefix_sum(double target) const;
  /// Finds leaves[i] for targets[i]. All targets go down level by level, so that cache misses
  /// overlap.
  void find_prefix_sum(std::span<const double> targets, std::span<std::size_t> leaves) const;

 private:
  std::unique_ptr<segment_tree::SegmentStore<Leaf>> store_;
};

extern template class SegmentTree<float>;
extern template class SegmentTree<double>;

}  // namespace reprise
