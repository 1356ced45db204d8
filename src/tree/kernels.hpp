#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::tree {

inline constexpr std::size_t kLeavesPerNode = 16;  ///< One cache line of floats.
inline constexpr std::size_t kFanout = 8;          ///< One cache line of doubles.

/// Eight sibling nodes. A draw reads the first cache line only.
///
/// Minimum and maximum range over the weights above 0 below each node; 0 stands for "none", so
/// that zeroed memory is an empty tree.
struct alignas(128) Group {
  double sum[kFanout];
  float bounds[2 * kFanout];  ///< The eight minima, then the eight maxima.
};
static_assert(sizeof(Group) == 128);

// The kernels choose their instruction set at run time. Sums associate in one fixed order, pairs,
// then quads, then eights, then sixteens, so that every instruction set gives the same bits and
// the sum of a node equals the last of its children's prefix sums exactly.

/// Recomputes nodes of the lowest level, numbered through all of `to`, from their leaves.
/// Invariant I9: from all children, never by differences.
void sum_leaves(const float* leaves, std::span<const std::uint32_t> nodes, Group* to) noexcept;

/// Recomputes nodes of the level `to` from their children, the groups of the level `from`. I9.
void sum_groups(const Group* from, std::span<const std::uint32_t> nodes, Group* to) noexcept;

/// Goes one level down for each draw: `nodes` holds groups of `level`, and then the child in which
/// the target falls; `targets` holds the position within it. Each target lies in [0, sum of the
/// group); it still lies in [0, sum of the child) afterwards, so the child's sum is above 0.
/// `below` is what holds the children's children, `stride` the bytes of one: they are prefetched.
void descend(const Group* level, std::span<double> targets, std::uint32_t* nodes, const void* below,
             std::size_t stride) noexcept;

/// The last step: `nodes` holds nodes of the lowest level, and then the leaf, whose weight is
/// above 0 and is written to `weights`.
void land(const float* leaves, std::span<const double> targets, std::uint32_t* nodes,
          float* weights) noexcept;

}  // namespace reprise::tree
