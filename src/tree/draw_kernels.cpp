#include "tree/kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tree/draw_kernels.cpp"
#include "tree/simd.hpp"

#include <algorithm>
#include <bit>

HWY_BEFORE_NAMESPACE();
namespace reprise::tree::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, kFanout>;
using Floats = hn::Rebind<float, Doubles>;
constexpr std::size_t kLanes = hn::MaxLanes(Doubles());
constexpr std::size_t kVectors = kFanout / kLanes;

template <class D>
using Eight = hn::Vec<D>[kVectors];

/// Lane kStep - 1 of each 2 * kStep lanes in all of their upper half, and 0 in the lower.
template <std::size_t kStep, class D>
HWY_INLINE hn::Vec<D> carry(D d, hn::Vec<D> v) {
  if constexpr (kStep == 1) {
    return hn::OddEven(hn::DupEven(v), hn::Zero(d));
  } else {
    alignas(64) std::int64_t from[kFanout];
    alignas(64) double taken[kFanout];
    for (std::size_t i = 0; i < kLanes; ++i) {
      const bool upper = (i & kStep) != 0;
      from[i] = static_cast<std::int64_t>(upper ? (i & ~(2 * kStep - 1)) + kStep - 1 : i);
      taken[i] = upper ? 1.0 : 0.0;
    }
    const auto shuffled = hn::TableLookupLanes(v, hn::SetTableIndices(d, from));
    return hn::IfThenElseZero(hn::Gt(hn::Load(d, taken), hn::Zero(d)), shuffled);
  }
}

template <class D>
HWY_INLINE hn::Vec<D> last_lane(D d, hn::Vec<D> v) {
  if constexpr (kLanes == 1) {
    return v;
  } else {
    alignas(64) std::int64_t from[kFanout];
    std::fill_n(from, kLanes, static_cast<std::int64_t>(kLanes - 1));
    return hn::TableLookupLanes(v, hn::SetTableIndices(d, from));
  }
}

/// One of Sklansky's steps (1960): each upper half of 2 * kStep values gains the lower half's last.
template <std::size_t kStep, class D>
HWY_INLINE void prefix_step(D d, Eight<D>& x) {
  if constexpr (kStep < kLanes) {
    for (auto& v : x) {
      v = hn::Add(v, carry<kStep>(d, v));
    }
  } else {
    constexpr std::size_t kVectorStep = kStep / kLanes;
    for (std::size_t i = 0; i < kVectors; i += 2 * kVectorStep) {
      const auto last = last_lane(d, x[i + kVectorStep - 1]);
      for (std::size_t j = i + kVectorStep; j < i + 2 * kVectorStep; ++j) {
        x[j] = hn::Add(x[j], last);
      }
    }
  }
}

/// Inclusive prefix sums, in order of rising value: rounding is monotone, and a child of 0 adds
/// nothing in this order, so equals its predecessor.
template <class D>
HWY_INLINE void prefix_sums(D d, Eight<D>& x) {
  prefix_step<1>(d, x);
  prefix_step<2>(d, x);
  prefix_step<4>(d, x);
}

template <class D>
HWY_INLINE void load_sums(D d, const double* from, Eight<D>& to) {
  for (std::size_t i = 0; i < kVectors; ++i) {
    to[i] = hn::Load(d, from + i * kLanes);
  }
}

template <class D>
HWY_INLINE void load_leaves(D d, const float* from, Eight<D>& to) {
  for (std::size_t i = 0; i < kVectors; ++i) {
    to[i] = hn::PromoteTo(d, hn::Load(Floats(), from + i * kLanes));
  }
}

/// Writes 8 values, and returns the last.
template <class D>
HWY_INLINE double store(D d, const Eight<D>& x, double* to) {
  for (std::size_t i = 0; i < kVectors; ++i) {
    hn::Store(x[i], d, to + i * kLanes);
  }
  return to[kFanout - 1];
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
HWY_INLINE double sum_of_prefixes(D d, const Eight<D>& x) {
  alignas(64) double out[kLanes];
  hn::Store(x[kVectors - 1], d, out);
  return out[kLanes - 1];
}

void descend(const Group* level, std::span<double> targets, std::uint32_t* nodes, const void* below,
             std::size_t stride) {
  const Doubles d;
  alignas(64) double before[2 * kFanout];  // before[kFanout + c] is the prefix sum up to child c.
  before[kFanout - 1] = 0.0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const Group& group = level[nodes[i]];
    Eight<Doubles> sums;
    load_sums(d, group.sum, sums);
    prefix_sums(d, sums);
    store(d, sums, before + kFanout);
    const std::size_t child = std::min(count_at_most(d, sums, targets[i]), kFanout - 1);
    // The prefix sums rise here, so the child's sum is above 0; yet their difference may exceed
    // that sum by rounding: the largest double below it is the last position inside.
    const double inside = std::bit_cast<double>(std::bit_cast<std::uint64_t>(group.sum[child]) - 1);
    targets[i] = std::min(targets[i] - before[kFanout - 1 + child], inside);
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
    const auto half = hn::Set(d, sum_of_prefixes(d, low));
    for (auto& v : high) {
      v = hn::Add(v, half);
    }
    const std::size_t child = std::min(
        count_at_most(d, low, targets[i]) + count_at_most(d, high, targets[i]), kLeavesPerNode - 1);
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

void descend(const Group* level, std::span<double> targets, std::uint32_t* nodes, const void* below,
             std::size_t stride) noexcept {
  HWY_DYNAMIC_DISPATCH(descend)(level, targets, nodes, below, stride);
}

void land(const float* leaves, std::span<const double> targets, std::uint32_t* nodes,
          float* weights) noexcept {
  HWY_DYNAMIC_DISPATCH(land)(leaves, targets, nodes, weights);
}

}  // namespace reprise::tree
#endif
