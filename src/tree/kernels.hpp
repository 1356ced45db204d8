#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::tree {

inline constexpr std::size_t kLeavesPerNode = 16;  ///< One cache line of floats.
inline constexpr std::size_t kFanout = 8;          ///< One cache line of doubles.

/// Eight sibling nodes, as updates see them.
///
/// Minimum and maximum are over the weights above 0 below each node; 0 stands for "none", so that
/// zeroed memory is an empty tree.
struct alignas(128) Group {
  double sum[kFanout];
  float bounds[2 * kFanout];  ///< The eight minima, then the eight maxima.
};
static_assert(sizeof(Group) == 128);

/// Eight sibling nodes, as draws see them, in one cache line: before[c] is the sum of the children
/// before c, or infinity if no child from c on has weight. So the last c with before[c] <= target
/// is the child on which the target falls. That child's weight is above 0; a target that rounding
/// has carried beyond the sum falls on the last child with weight. Prefix sums are computed when
/// sums change, because more draws than changes pass a node.
struct alignas(64) Prefixes {
  double before[kFanout];
};
static_assert(sizeof(Prefixes) == 64);

// The kernels choose their instruction set at run time. Sums always associate in one way, pairs,
// then quads, then eights, then sixteens, so that every instruction set gives the same bits and the
// sum of a node equals the last of its children's prefix sums exactly.

/// Recomputes nodes of the lowest level, numbered through all of `to`, from their leaves.
/// Invariant I9: from all children, never by differences. The `prefixes` of `to` are only
/// prefetched.
void sum_leaves(const float* leaves, std::span<const std::uint32_t> nodes, Group* to,
                const Prefixes* prefixes) noexcept;

/// Recomputes nodes of the level `to` from all of their children, the groups of the level `from`
/// (invariant I9), and the prefix sums of these groups.
void sum_groups(const Group* from, std::span<const std::uint32_t> nodes, Group* to,
                const Prefixes* prefixes, Prefixes* from_prefixes) noexcept;

/// Moves each draw one level down. In: `nodes` holds groups of `level`; out: the child on which the
/// target falls, whose sum is above 0. `targets` then holds the position within that child, at
/// least 0 and by rounding perhaps beyond the child's sum. `below` has a cache line for each child,
/// which is prefetched for the next step down.
void descend(const Prefixes* level, std::span<double> targets, std::uint32_t* nodes,
             const void* below) noexcept;

/// The last step down. In: `nodes` holds nodes of the lowest level; out: the leaf, whose weight is
/// above 0 and is written to `weights`.
void find_leaf(const float* leaves, std::span<const double> targets, std::uint32_t* nodes,
               float* weights) noexcept;

}  // namespace reprise::tree
