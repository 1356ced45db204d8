#include "tree/kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tree/kernels.cpp"
#include "tree/simd.hpp"
// Included after the choice of targets.
#include "tree/prefix-inl.hpp"

#include <algorithm>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace reprise::tree::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Nodes are recomputed several at a time, as many as a vector has doubles. Their children, one node
// after the other, form a sequence whose neighbours are folded until one value per node is left, so
// every shuffle works for all nodes of the block. Minimum and maximum are computed together as the
// minima of two sequences, the values and the negated values, with infinity in place of 0.

/// Number of elements by which memory is prefetched ahead.
constexpr std::size_t kAhead = 40;

/// The tags of a block of at most kNodes nodes. A node by itself is read one number at a time: its
/// child was written just now, and a wider load would wait until that store has left the store
/// buffer.
template <std::size_t kNodes>
struct Block {
  using Doubles = hn::CappedTag<double, kNodes>;
  using Floats = hn::CappedTag<float, kNodes == 1 ? 1 : 2 * kNodes>;
  static constexpr std::size_t kLanes = hn::MaxLanes(Doubles());
  static constexpr std::size_t kFloatLanes = hn::MaxLanes(Floats());
};

/// Vector number `at` of the sequence after kSteps folds of the loaded vectors. Each fold combines
/// neighbours, so its sequence is half as long.
template <std::size_t kSteps, class D, class Combine, class Load>
HWY_INLINE hn::Vec<D> fold(D d, Combine combine, const Load& load, std::size_t at) {
  if constexpr (kSteps == 0) {
    return load(at);
  } else {
    const auto low = fold<kSteps - 1>(d, combine, load, 2 * at);
    const auto high = fold<kSteps - 1>(d, combine, load, 2 * at + 1);
    if constexpr (hn::MaxLanes(d) == 1) {
      return combine(low, high);
    } else {
      // Argument-dependent lookup finds them: the target of single lanes does not declare them.
      return combine(ConcatEven(d, high, low), ConcatOdd(d, high, low));
    }
  }
}

/// The values of a node's children, for a block of nodes given by their numbers.
struct LeafChildren {
  static constexpr std::size_t kSteps = 4;  // 16 leaves.

  HWY_INLINE LeafChildren(const float* all, const std::uint32_t* node) : all_(all), node_(node) {}

  template <class D>
  HWY_INLINE hn::Vec<D> values(D d, std::size_t i) const {
    return load_as(d, at<hn::MaxLanes(D())>(i, kLeavesPerNode));
  }
  /// Per node, the leaves and then the leaves negated.
  template <class F>
  HWY_INLINE hn::Vec<F> bounds(F f, std::size_t i) const {
    constexpr std::size_t kLanes = hn::MaxLanes(F());
    constexpr std::size_t kVectors = kLeavesPerNode / kLanes;
    const std::size_t node = i / (2 * kVectors);
    const std::size_t part = i % (2 * kVectors);
    const auto v = hn::Load(f, at<kLanes>(node * kVectors + part % kVectors, kLeavesPerNode));
    return part < kVectors ? v : hn::Neg(v);
  }

 private:
  /// Vector i of the block's leaves.
  template <std::size_t kLanes>
  HWY_INLINE const float* at(std::size_t i, std::size_t per_node) const {
    return all_ + node_[i * kLanes / per_node] * per_node + i * kLanes % per_node;
  }

  const float* all_;
  const std::uint32_t* node_;
};

struct GroupChildren {
  static constexpr std::size_t kSteps = 3;  // 8 nodes.

  HWY_INLINE GroupChildren(const Group* all, const std::uint32_t* node) : all_(all), node_(node) {}

  template <class D>
  HWY_INLINE hn::Vec<D> values(D d, std::size_t i) const {
    constexpr std::size_t kLanes = hn::MaxLanes(D());
    return hn::Load(d, all_[node_[i * kLanes / kFanout]].sum + i * kLanes % kFanout);
  }
  /// Per node, the children's minima and then their maxima negated.
  template <class F>
  HWY_INLINE hn::Vec<F> bounds(F f, std::size_t i) const {
    constexpr std::size_t kLanes = hn::MaxLanes(F());
    const Group& group = all_[node_[i * kLanes / (2 * kFanout)]];
    const std::size_t first = i * kLanes % (2 * kFanout);
    const auto v = hn::Load(f, group.bounds + first);
    if constexpr (kLanes == 2 * kFanout) {
      return hn::Xor(v, hn::IfThenElseZero(hn::Not(hn::FirstN(f, kFanout)), hn::Set(f, -0.0F)));
    } else {
      return first < kFanout ? v : hn::Neg(v);
    }
  }

 private:
  const Group* all_;
  const std::uint32_t* node_;
};

/// Recomputes kLanes nodes. Its lambdas are inlined by force: calls of them cost a run of appends a
/// fifth.
template <class B, class Children>
HWY_INLINE void refresh_block(const Children& children, const std::uint32_t* nodes, Group* to) {
  const typename B::Doubles d;
  const typename B::Floats f;
  alignas(64) double sums[B::kLanes];
  alignas(64) float bounds[2 * B::kLanes];
  constexpr std::size_t kSteps = Children::kSteps;
  hn::Store(fold<kSteps>(
                d, Plus(),
                [&](std::size_t i) HWY_ATTR
                __attribute__((always_inline)) { return children.values(d, i); },
                0),
            d, sums);
  const auto none = hn::Set(f, std::numeric_limits<float>::infinity());
  const auto load_bounds = [&](std::size_t i) HWY_ATTR __attribute__((always_inline)) {
    const auto v = children.bounds(f, i);
    return hn::IfThenElse(hn::Eq(v, hn::Zero(f)), none, v);
  };
  for (std::size_t i = 0; i < 2 * B::kLanes / B::kFloatLanes; ++i) {
    const auto least = fold<kSteps>(f, Least(), load_bounds, i);
    // Minima are positive and negated maxima negative: the sign alone tells them apart.
    hn::Store(hn::IfThenElseZero(hn::Lt(least, none), hn::Abs(least)), f,
              bounds + i * B::kFloatLanes);
  }
  for (std::size_t i = 0; i < B::kLanes; ++i) {
    Group& group = to[nodes[i] / kFanout];
    const std::size_t slot = nodes[i] % kFanout;
    group.sum[slot] = sums[i];
    group.bounds[slot] = bounds[2 * i];
    group.bounds[kFanout + slot] = bounds[2 * i + 1];
  }
}

/// Computes `Steps`.
template <class D>
HWY_INLINE void write_steps(D d, const double* sums, double* to) {
  Eight<D> x;
  load_eight(d, sums, x);
  prefix_sums(d, x);
  const auto all = last_lane(d, x[vectors_of(D()) - 1]);
  const auto infinity = hn::Set(d, std::numeric_limits<double>::infinity());
  for (auto& v : x) {
    v = hn::IfThenElse(hn::Ge(v, all), infinity, v);
  }
  shift_up(d, x);
  store_eight(d, x, to);
}

/// Calls `each` with every block's tags and first node.
template <class Children, class Source, class Each>
HWY_INLINE void refresh(const Source* from, std::span<const std::uint32_t> nodes, Group* to,
                        const Steps* steps, const Each& each) {
  using Wide = Block<kFanout>;
  using Alone = Block<1>;
  std::size_t i = 0;
  for (; i + Wide::kLanes <= nodes.size(); i += Wide::kLanes) {
    for (std::size_t j = i; j < i + Wide::kLanes; ++j) {
      const std::size_t ahead = nodes[std::min(j + kAhead, nodes.size() - 1)];
      hwy::Prefetch(to[ahead / kFanout].sum);
      hwy::Prefetch(to[ahead / kFanout].bounds);
      hwy::Prefetch(steps[ahead / kFanout].before);
    }
    refresh_block<Wide>(Children(from, &nodes[i]), &nodes[i], to);
    each(Wide(), &nodes[i]);
  }
  const std::size_t left = nodes.size() - i;
  if (left == 1) {
    refresh_block<Alone>(Children(from, &nodes[i]), &nodes[i], to);
    each(Alone(), &nodes[i]);
  } else if (left > 1) {
    // Some nodes are computed twice, with the same result.
    std::uint32_t last[Wide::kLanes];
    for (std::size_t j = 0; j < Wide::kLanes; ++j) {
      last[j] = nodes[i + j % left];
    }
    refresh_block<Wide>(Children(from, last), last, to);
    each(Wide(), last);
  }
}

void sum_leaves(const float* leaves, std::span<const std::uint32_t> nodes, Group* to,
                const Steps* steps) {
  refresh<LeafChildren>(leaves, nodes, to, steps, [](auto, const std::uint32_t*) {});
}

void sum_groups(const Group* from, std::span<const std::uint32_t> nodes, Group* to,
                const Steps* steps, Steps* from_steps) {
  refresh<GroupChildren>(
      from, nodes, to, steps, [&](auto block, const std::uint32_t* node) HWY_ATTR {
        using B = decltype(block);
        for (std::size_t i = 0; i < B::kLanes; ++i) {
          write_steps(typename B::Doubles(), from[node[i]].sum, from_steps[node[i]].before);
        }
      });
}

using Doubles = hn::CappedTag<double, kFanout>;

void descend(const Steps* level, std::span<double> targets, std::uint32_t* nodes, const void* below,
             std::size_t stride) {
  const Doubles d;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const double* const before = level[nodes[i]].before;
    // The first prefix sum is 0, so at least one is not above the target.
    const std::size_t child = count_at_most<kFanout>(d, before, targets[i]) - 1;
    targets[i] -= before[child];
    const std::size_t node = nodes[i] * kFanout + child;
    nodes[i] = static_cast<std::uint32_t>(node);
    hwy::Prefetch(static_cast<const char*>(below) + node * stride);
  }
}

void land(const float* leaves, std::span<const double> targets, std::uint32_t* nodes,
          float* weights) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const float* const node = leaves + nodes[i] * kLeavesPerNode;
    double target = targets[i];
    const std::size_t child = pick<kLeavesPerNode>(Doubles(), node, target);
    nodes[i] = static_cast<std::uint32_t>(nodes[i] * kLeavesPerNode + child);
    weights[i] = node[child];
  }
}

}  // namespace reprise::tree::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise::tree {

HWY_EXPORT(sum_leaves);
HWY_EXPORT(sum_groups);
HWY_EXPORT(descend);
HWY_EXPORT(land);

void sum_leaves(const float* leaves, std::span<const std::uint32_t> nodes, Group* to,
                const Steps* steps) noexcept {
  HWY_DYNAMIC_DISPATCH(sum_leaves)(leaves, nodes, to, steps);
}

void sum_groups(const Group* from, std::span<const std::uint32_t> nodes, Group* to,
                const Steps* steps, Steps* from_steps) noexcept {
  HWY_DYNAMIC_DISPATCH(sum_groups)(from, nodes, to, steps, from_steps);
}

void descend(const Steps* level, std::span<double> targets, std::uint32_t* nodes, const void* below,
             std::size_t stride) noexcept {
  HWY_DYNAMIC_DISPATCH(descend)(level, targets, nodes, below, stride);
}

void land(const float* leaves, std::span<const double> targets, std::uint32_t* nodes,
          float* weights) noexcept {
  HWY_DYNAMIC_DISPATCH(land)(leaves, targets, nodes, weights);
}

}  // namespace reprise::tree
#endif
