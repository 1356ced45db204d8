#include "tree/weight_tree.hpp"

#include "base/divider.hpp"
#include "base/normal.hpp"

#include <algorithm>
#include <limits>

namespace reprise::tree {

namespace {

/// Leaves handled together: enough for cache misses to overlap, few enough for the stack and L1.
constexpr std::size_t kBlock = 512;
/// Number of elements by which memory is prefetched ahead.
constexpr std::size_t kAhead = 16;

using base::divide_up;

constexpr std::size_t padded(std::size_t leaves) {
  return std::max<std::size_t>(divide_up(leaves, kLeavesPerNode), 1) * kLeavesPerNode;
}

/// Replaces nodes by their parents. Of equal neighbours one is kept, so sorted nodes give each
/// parent once.
std::span<std::uint32_t> parents_in_order(std::span<std::uint32_t> nodes) {
  std::size_t kept = 0;
  for (const std::uint32_t node : nodes) {
    const std::uint32_t parent = node / kFanout;
    if (kept == 0 || nodes[kept - 1] != parent) {
      nodes[kept++] = parent;
    }
  }
  return nodes.first(kept);
}

constexpr std::size_t kMaxMarked = 4096;

/// Like `parents_in_order`, but also gives each parent once if the nodes are not sorted. For levels
/// with at most kMaxMarked parents.
std::span<std::uint32_t> parents_by_marking(std::span<std::uint32_t> nodes, std::size_t parents) {
  bool seen[kMaxMarked];
  std::fill_n(seen, parents, false);
  std::size_t kept = 0;
  for (const std::uint32_t node : nodes) {
    const std::uint32_t parent = node / kFanout;
    nodes[kept] = parent;
    kept += seen[parent] ? 0U : 1U;
    seen[parent] = true;
  }
  return nodes.first(kept);
}

}  // namespace

WeightTree::Shape::Shape(std::size_t leaves) noexcept {
  std::size_t nodes = padded(leaves) / kLeavesPerNode;
  while (true) {
    level[levels] = {groups, nodes};
    ++levels;
    groups += divide_up(nodes, kFanout);
    if (nodes == 1) {
      return;
    }
    nodes = divide_up(nodes, kFanout);
  }
}

WeightTree::WeightTree(std::size_t leaves)
    : leaf_count_(leaves),
      shape_(leaves),
      leaves_(padded(leaves)),
      groups_(shape_.groups),
      prefixes_(shape_.groups) {}

std::size_t WeightTree::bytes(std::size_t leaves) noexcept {
  return padded(leaves) * sizeof(float) + Shape(leaves).groups * (sizeof(Group) + sizeof(Prefixes));
}

void WeightTree::expect_leaves(std::size_t leaves) const noexcept {
  // These are the groups of the lowest level. Together the levels above have a seventh of its size,
  // so they are left out.
  const std::size_t groups = leaves / (kLeavesPerNode * kFanout);
  leaves_.expect_full(0, leaves);
  groups_.expect_full(0, groups);
  prefixes_.expect_full(0, groups);
}

float WeightTree::min_positive() const noexcept {
  const float least = root().bounds[0];
  return least > 0.0F ? least : std::numeric_limits<float>::infinity();
}

double WeightTree::sum_run(std::size_t first, std::size_t count) const noexcept {
  std::size_t end = first + count;
  double sum = 0.0;
  // Each level adds the leaves or nodes at both ends that do not fill a node of the next level.
  // Then both ends are at the beginning of a node there.
  for (; first != end && first % kLeavesPerNode != 0; ++first) {
    sum += static_cast<double>(leaves_[first]);
  }
  for (; first != end && end % kLeavesPerNode != 0; --end) {
    sum += static_cast<double>(leaves_[end - 1]);
  }
  first /= kLeavesPerNode;
  end /= kLeavesPerNode;
  for (std::size_t level = 0; first != end; ++level) {
    const Group* const groups = groups_.data() + shape_.level[level].first_group;
    for (; first != end && first % kFanout != 0; ++first) {
      sum += groups[first / kFanout].sum[first % kFanout];
    }
    for (; first != end && end % kFanout != 0; --end) {
      sum += groups[(end - 1) / kFanout].sum[(end - 1) % kFanout];
    }
    first /= kFanout;
    end /= kFanout;
  }
  return sum;
}

bool WeightTree::all_positive(std::span<const std::uint32_t> leaves) const noexcept {
  // No early exit, so that the loads do not wait for each other.
  bool all = true;
  for (const std::uint32_t leaf : leaves) {
    all &= leaves_[leaf] > 0.0F;
  }
  return all;
}

void WeightTree::assign_run(std::uint32_t first, std::span<const float> weights) noexcept {
  std::transform(weights.begin(), weights.end(), leaves_.data() + first, base::normal_or_0);
  refresh_run(first, weights.size());
}

void WeightTree::clear_run(std::uint32_t first, std::size_t count) noexcept {
  std::fill_n(leaves_.data() + first, count, 0.0F);
  refresh_run(first, count);
}

void WeightTree::assign(std::span<const std::uint32_t> leaves,
                        std::span<const float> weights) noexcept {
  std::uint32_t nodes[kBlock];
  while (!leaves.empty()) {
    const std::size_t count = std::min(leaves.size(), kBlock);
    for (std::size_t i = 0; i < std::min(count, kAhead); ++i) {
      __builtin_prefetch(&leaves_[leaves[i]]);
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      __builtin_prefetch(&leaves_[leaves[std::min(i + kAhead, count - 1)]]);
      leaves_[leaves[i]] = base::normal_or_0(weights[i]);
      const auto node = static_cast<std::uint32_t>(leaves[i] / kLeavesPerNode);
      if (kept == 0 || nodes[kept - 1] != node) {
        nodes[kept++] = node;
      }
    }
    refresh({nodes, kept});
    leaves = leaves.subspan(count);
    weights = weights.subspan(count);
  }
}

/// Recomputes the ancestors of consecutive leaves.
void WeightTree::refresh_run(std::size_t first, std::size_t count) noexcept {
  if (count == 0) {
    return;
  }
  std::uint32_t nodes[kBlock];
  std::size_t node = first / kLeavesPerNode;
  const std::size_t end = (first + count - 1) / kLeavesPerNode + 1;
  while (node != end) {
    const std::size_t block = std::min(end - node, kBlock);
    for (std::size_t i = 0; i < block; ++i) {
      nodes[i] = static_cast<std::uint32_t>(node + i);
    }
    refresh({nodes, block});
    node += block;
  }
}

void WeightTree::refresh(std::span<std::uint32_t> nodes) noexcept {
  sum_leaves(leaves_.data(), nodes, groups_of(0), prefixes_of(0));
  for (std::size_t level = 1; level < shape_.levels; ++level) {
    const std::size_t parents = shape_.level[level].nodes;
    // Marking clears a flag for each parent, which pays unless few of the parents are concerned.
    nodes = parents <= std::min(kMaxMarked, 8 * nodes.size()) ? parents_by_marking(nodes, parents)
                                                              : parents_in_order(nodes);
    sum_groups(groups_of(level - 1), nodes, groups_of(level), prefixes_of(level),
               prefixes_of(level - 1));
  }
}

void WeightTree::find(std::span<double> targets, std::span<std::uint32_t> leaves,
                      std::span<float> weights) const noexcept {
  const double sum = total();
  for (std::size_t done = 0; done < targets.size(); done += kBlock) {
    const std::size_t count = std::min(targets.size() - done, kBlock);
    const std::span<double> block = targets.subspan(done, count);
    std::uint32_t* const nodes = leaves.data() + done;
    for (double& target : block) {
      target = target > 0.0 ? std::min(target, sum) : 0.0;
    }
    std::fill_n(nodes, count, 0U);
    for (std::size_t level = shape_.levels - 1; level-- > 0;) {
      descend(prefixes_of(level), block, nodes,
              level == 0 ? static_cast<const void*>(leaves_.data()) : prefixes_of(level - 1));
    }
    find_leaf(leaves_.data(), block, nodes, weights.data() + done);
  }
}

}  // namespace reprise::tree
