// Measures what the machine allows for W1: a bare tree of sums and minima, from which 512 leaves
// are drawn and then set. Like the library's tree, the bare tree has kFanout children per node,
// works level by level with the same instruction set, and keeps prefix sums of each node's
// children, without which draws take half as long again. Unlike the library's tree, it has no
// maxima, ignores rounding errors, and takes random numbers and weights that were made beforehand.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tree_limit_bench.cpp"
#include "tree/simd.hpp"
// After simd.hpp, which chooses the instruction sets and includes this file once for each.
#include "base/divider.hpp"
#include "base/memory.hpp"
#include "measure.hpp"
#include "tree/prefix-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace reprise::tree::HWY_NAMESPACE {

using Doubles = hn::CappedTag<double, kFanout>;
using Floats = hn::CappedTag<float, kFanout>;

/// Combines kCount values into one vector, each of whose lanes combines every MaxLanes-th value.
template <std::size_t kCount, class D, class Combine, class T>
HWY_INLINE hn::Vec<D> reduce_row(D d, Combine combine, const T* values) {
  auto all = load_as(d, values);
  for (std::size_t i = hn::MaxLanes(d); i < kCount; i += hn::MaxLanes(d)) {
    all = combine(all, load_as(d, values + i));
  }
  return all;
}

/// Sets to[i] to the combination of all values of row(i), for i from 0 to 7. Handles as many rows
/// at a time as a vector has lanes, so that each shuffle works for all of them.
template <class D, class Combine, class Row>
HWY_INLINE void reduce_rows(D d, Combine combine, const Row& row, hn::TFromD<D>* to) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  for (std::size_t i = 0; i < kFanout; i += kLanes) {
    hn::Vec<D> rows[kLanes];
    for (std::size_t j = 0; j < kLanes; ++j) {
      rows[j] = row(i + j);
    }
    hn::Store(fold<kLanes>(d, combine, rows), d, to + i);
  }
}

/// Recomputes the sums and minima of `nodes` in the level `to`, eight nodes at a time. `sums`
/// computes eight sums; minima(node) has the kCount numbers whose minimum is that of the node.
template <std::size_t kCount, class Sums, class Minima>
HWY_INLINE void recompute(std::span<const std::uint32_t> nodes, Group* to, const Prefixes* steps,
                          const Sums& sums, const Minima& minima) {
  constexpr std::size_t kAhead = 40;
  for (std::size_t i = 0; i < nodes.size(); i += kFanout) {
    std::uint32_t block[kFanout];
    for (std::size_t j = 0; j < kFanout; ++j) {
      block[j] = nodes[std::min(i + j, nodes.size() - 1)];
      const std::size_t ahead = nodes[std::min(i + j + kAhead, nodes.size() - 1)] / kFanout;
      hwy::Prefetch(to[ahead].sum);
      hwy::Prefetch(to[ahead].bounds);
      hwy::Prefetch(steps[ahead].before);
    }
    alignas(64) double sum[kFanout];
    alignas(64) float least[kFanout];
    sums(block, sum);
    const auto least_of = [&](std::size_t j) HWY_ATTR {
      return reduce_row<kCount>(Floats(), Minimum(), minima(block[j]));
    };
    reduce_rows(Floats(), Minimum(), least_of, least);
    for (std::size_t j = 0; j < kFanout; ++j) {
      to[block[j] / kFanout].sum[block[j] % kFanout] = sum[j];
      to[block[j] / kFanout].bounds[block[j] % kFanout] = least[j];
    }
  }
}

void recompute_lowest(const float* leaves, std::span<const std::uint32_t> nodes, Group* to,
                      const Prefixes* steps) {
  const auto children = [=](std::uint32_t node) { return leaves + node * kLeavesPerNode; };
  const auto sums = [=](const std::uint32_t* block, double* sum) HWY_ATTR {
    const auto sum_of = [=](std::size_t j) HWY_ATTR {
      return reduce_row<kLeavesPerNode>(Doubles(), Plus(), children(block[j]));
    };
    reduce_rows(Doubles(), Plus(), sum_of, sum);
  };
  recompute<kLeavesPerNode>(nodes, to, steps, sums, children);
}

void recompute_inner(const Group* from, std::span<const std::uint32_t> nodes, Group* to,
                     const Prefixes* steps, Prefixes* from_prefixes) {
  const auto sums = [=](const std::uint32_t* block, double* sum) HWY_ATTR {
    const Doubles d;
    for (std::size_t j = 0; j < kFanout; ++j) {
      Eight<Doubles> own;
      Eight<Doubles> ends;
      load_eight(d, from[block[j]].sum, own);
      load_eight(d, from[block[j]].sum, ends);
      prefix_sums(d, ends);
      for (std::size_t i = 0; i < vectors_of(d); ++i) {
        own[i] = hn::Sub(ends[i], own[i]);
      }
      store_eight(d, own, from_prefixes[block[j]].before);
      sum[j] = hn::GetLane(last_lane(d, ends[vectors_of(d) - 1]));
    }
  };
  recompute<kFanout>(nodes, to, steps, sums, [=](std::uint32_t node) { return from[node].bounds; });
}

void descend_level(const Prefixes* level, std::span<double> targets, std::uint32_t* nodes,
                   const void* below) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const double* const before = level[nodes[i]].before;
    const std::size_t child = count_at_most<kFanout>(Doubles(), before, targets[i]) - 1;
    targets[i] -= before[child];
    nodes[i] = static_cast<std::uint32_t>(nodes[i] * kFanout + child);
    hwy::Prefetch(static_cast<const Prefixes*>(below) + nodes[i]);
  }
}

void to_leaves(const float* leaves, std::span<double> targets, std::uint32_t* nodes) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const float* const node = leaves + nodes[i] * kLeavesPerNode;
    const std::size_t child = pick<kLeavesPerNode>(Doubles(), node, targets[i]);
    nodes[i] = static_cast<std::uint32_t>(nodes[i] * kLeavesPerNode + child);
  }
}

}  // namespace reprise::tree::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise::tree {

HWY_EXPORT(recompute_lowest);
HWY_EXPORT(recompute_inner);
HWY_EXPORT(descend_level);
HWY_EXPORT(to_leaves);

namespace {

using bench::kBatch;

class BareTree {
 public:
  explicit BareTree(std::size_t size) : leaves_(size) {
    leaves_.expect_full(0, size);
    std::size_t nodes = size / kLeavesPerNode;
    while (levels_.empty() || nodes > 1) {
      nodes = levels_.empty() ? nodes : base::divide_up(nodes, kFanout);
      Level& level = levels_.emplace_back(base::divide_up(nodes, kFanout));
      level.groups.expect_full(0, level.groups.size());
      level.steps.expect_full(0, level.steps.size());
    }
    bench::Random random(1);
    std::generate(numbers_.begin(), numbers_.end(), [&] { return random.uniform(); });
    for (std::size_t first = 0; first < size; first += kBatch) {
      std::iota(drawn_.begin(), drawn_.end(), static_cast<std::uint32_t>(first));
      update();
    }
  }

  /// Draws a leaf from each of 512 equal parts of the total weight.
  void draw() {
    const double part = levels_.back().groups[0].sum[0] / kBatch;
    const double* const numbers = next();
    std::array<double, kBatch> targets;
    for (std::size_t i = 0; i < kBatch; ++i) {
      targets[i] = (static_cast<double>(i) + numbers[i]) * part;
    }
    drawn_.fill(0);
    for (std::size_t i = levels_.size() - 1; i-- > 0;) {
      const void* const leaves = leaves_.data();
      const void* const below = i == 0 ? leaves : levels_[i - 1].steps.data();
      HWY_DYNAMIC_DISPATCH(descend_level)(levels_[i].steps.data(), targets, drawn_.data(), below);
    }
    HWY_DYNAMIC_DISPATCH(to_leaves)(leaves_.data(), targets, drawn_.data());
  }

  /// Sets the leaves that were drawn to random weights.
  void update() {
    constexpr std::size_t kAhead = 16;
    const double* const weights = next();
    std::array<std::uint32_t, kBatch> nodes;
    for (std::size_t i = 0; i < kBatch; ++i) {
      __builtin_prefetch(&leaves_[drawn_[std::min(i + kAhead, kBatch - 1)]]);
      leaves_[drawn_[i]] = static_cast<float>(weights[i]);
      nodes[i] = drawn_[i] / kLeavesPerNode;
    }
    const auto each_once = [&](std::span<std::uint32_t> sorted) {
      return std::span(sorted.begin(), std::unique(sorted.begin(), sorted.end()));
    };
    std::span<std::uint32_t> changed = each_once(nodes);
    HWY_DYNAMIC_DISPATCH(recompute_lowest)
    (leaves_.data(), changed, levels_[0].groups.data(), levels_[0].steps.data());
    for (std::size_t i = 1; i < levels_.size(); ++i) {
      std::ranges::for_each(changed, [](std::uint32_t& node) { node /= kFanout; });
      changed = each_once(changed);
      Level& from = levels_[i - 1];
      HWY_DYNAMIC_DISPATCH(recompute_inner)
      (from.groups.data(), changed, levels_[i].groups.data(), levels_[i].steps.data(),
       from.steps.data());
    }
  }

 private:
  struct Level {
    explicit Level(std::size_t count) : groups(count), steps(count) {}
    base::LazyArray<Group> groups;
    base::LazyArray<Prefixes> steps;
  };

  const double* next() {
    at_ = (at_ + kBatch) % numbers_.size();
    return &numbers_[at_];
  }

  base::LazyArray<float> leaves_;
  std::vector<Level> levels_;  ///< From the lowest level up; the last level is the root.
  std::vector<double> numbers_ = std::vector<double>(kBatch * 64);
  std::size_t at_ = 0;
  std::array<std::uint32_t, kBatch> drawn_{};
};

[[maybe_unused]] const bool added = [] {
  bench::add_sizes<BareTree>("W1/limit/bare_tree", {16, 20, 23}, kBatch, [](BareTree& tree) {
    tree.draw();
    tree.update();
    benchmark::ClobberMemory();
  });
  return true;
}();

}  // namespace
}  // namespace reprise::tree
#endif
