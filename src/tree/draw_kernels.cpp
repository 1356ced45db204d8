#include "tree/kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tree/draw_kernels.cpp"
#include "tree/simd.hpp"
// After the choice of targets.
#include "tree/prefix-inl.hpp"

#include <algorithm>
#include <bit>

HWY_BEFORE_NAMESPACE();
namespace reprise::tree::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, kFanout>;
using Floats = hn::Rebind<float, Doubles>;
constexpr std::size_t kLanes = hn::MaxLanes(Doubles());

template <class D>
HWY_INLINE void load_leaves(D d, const float* from, Eight<D>& to) {
  for (std::size_t i = 0; i < vectors_of(D()); ++i) {
    to[i] = hn::PromoteTo(d, hn::Load(Floats(), from + i * kLanes));
  }
}

template <class D>
HWY_INLINE std::size_t count_at_most(D d, const Eight<D>& x, double limit) {
  const auto limits = hn::Set(d, limit);
  std::size_t count = 0;
  for (const auto& v : x) {
    count += hn::CountTrue(d, hn::Le(v, limits));
  }
  return count;
}

template <class D>
HWY_INLINE double last_of(D d, const Eight<D>& x) {
  alignas(64) double out[kLanes];
  hn::Store(x[vectors_of(D()) - 1], d, out);
  return out[kLanes - 1];
}

void descend(const Steps* level, std::span<double> targets, std::uint32_t* nodes, const void* below,
             std::size_t stride) {
  const Doubles d;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const double* const before = level[nodes[i]].before;
    Eight<Doubles> steps;
    load_eight(d, before, steps);
    // The first prefix sum is 0, so at least one is not above the target.
    const std::size_t child = count_at_most(d, steps, targets[i]) - 1;
    targets[i] -= before[child];
    const std::size_t node = nodes[i] * kFanout + child;
    nodes[i] = static_cast<std::uint32_t>(node);
    hwy::Prefetch(static_cast<const char*>(below) + node * stride);
  }
}

void land(const float* leaves, std::span<const double> targets, std::uint32_t* nodes,
          float* weights) {
  const Doubles d;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::size_t first = nodes[i] * kLeavesPerNode;
    Eight<Doubles> low;
    Eight<Doubles> high;
    load_leaves(d, leaves + first, low);
    load_leaves(d, leaves + first + kFanout, high);
    prefix_sums(d, low);
    prefix_sums(d, high);
    const auto half = hn::Set(d, last_of(d, low));
    for (auto& v : high) {
      v = hn::Add(v, half);
    }
    // Rounding may make the difference of two prefix sums larger than the sum between them: the
    // largest double below the sum is the last position inside.
    const double inside = std::bit_cast<double>(std::bit_cast<std::uint64_t>(last_of(d, high)) - 1);
    const double target = std::min(targets[i], inside);
    const std::size_t child = count_at_most(d, low, target) + count_at_most(d, high, target);
    nodes[i] = static_cast<std::uint32_t>(first + child);
    weights[i] = leaves[first + child];
  }
}

}  // namespace reprise::tree::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise::tree {

HWY_EXPORT(descend);
HWY_EXPORT(land);

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
