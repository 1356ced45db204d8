#include "segment_tree/segment_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "segment_tree/segment_kernels.cpp"
#include "tree/simd.hpp"
// After the choice of targets.
#include "tree/prefix-inl.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace reprise::segment_tree::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using tree::kFanout;
using tree::HWY_NAMESPACE::Eight;
using tree::HWY_NAMESPACE::last_lane;
using tree::HWY_NAMESPACE::prefix_sums;
using tree::HWY_NAMESPACE::store_eight;
using tree::HWY_NAMESPACE::vectors_of;

using Doubles = hn::CappedTag<double, kFanout>;
/// Lanes that fill a cache line, or as many of them as a vector has.
template <class T>
using Lanes = hn::CappedTag<T, kLine<T>>;

/// Number of elements by which memory is prefetched ahead.
constexpr std::size_t kAhead = 24;

struct Plus {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
struct Least {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Min(a, b);
  }
};
struct Most {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Max(a, b);
  }
};

/// Folds the halves of a vector onto each other until one lane is left.
template <class D, class Combine>
HWY_INLINE hn::TFromD<D> fold_lanes(D d, hn::Vec<D> v, Combine combine) {
  if constexpr (hn::MaxLanes(d) == 1) {
    return hn::GetLane(v);
  } else {
    const hn::Half<D> half;
    // Argument-dependent lookup finds them: the target of single lanes does not declare them.
    return fold_lanes(half, combine(LowerHalf(half, v), UpperHalf(half, v)), combine);
  }
}

/// As the fold above, for kCount values that load(i) gives from place i on.
template <std::size_t kCount, class D, class Combine, class Load>
HWY_INLINE hn::TFromD<D> fold(D d, Combine combine, const Load& load) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  hn::Vec<D> x[kCount / kLanes];
  for (std::size_t i = 0; i < kCount / kLanes; ++i) {
    x[i] = load(i * kLanes);
  }
  for (std::size_t half = kCount / kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) {
      x[i] = combine(x[i], x[i + half]);
    }
  }
  return fold_lanes(d, x[0], combine);
}

HWY_INLINE hn::Vec<Doubles> load_doubles(const float* from) {
  return hn::PromoteTo(Doubles(), hn::Load(hn::Rebind<float, Doubles>(), from));
}
HWY_INLINE hn::Vec<Doubles> load_doubles(const double* from) {
  return hn::Load(Doubles(), from);
}

/// Writes the summary of a node with such children.
template <class Leaf, std::size_t kCount, class Sum>
HWY_INLINE void summarize(const Sum* sums, const Leaf* minima, const Leaf* maxima,
                          SegmentGroup<Leaf>& to, std::size_t slot) {
  const hn::CappedTag<Leaf, kCount> d;
  const auto load_sums = [&](std::size_t i) HWY_ATTR { return load_doubles(sums + i); };
  const auto load_minima = [&](std::size_t i) HWY_ATTR { return hn::Load(d, minima + i); };
  const auto load_maxima = [&](std::size_t i) HWY_ATTR { return hn::Load(d, maxima + i); };
  to.sum[slot] = fold<kCount>(Doubles(), Plus(), load_sums);
  to.min[slot] = fold<kCount>(d, Least(), load_minima);
  to.max[slot] = fold<kCount>(d, Most(), load_maxima);
}

template <class Leaf>
void summarize_lines(std::span<const Leaf> leaves, std::span<const std::size_t> nodes,
                     SegmentGroup<Leaf>* to) {
  const std::size_t whole = leaves.size() / kLine<Leaf>;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::size_t ahead = nodes[std::min(i + kAhead, nodes.size() - 1)];
    hwy::Prefetch(to[ahead / kFanout].sum);
    hwy::Prefetch(to[ahead / kFanout].min);
    const Leaf* const line = leaves.data() + nodes[i] * kLine<Leaf>;
    SegmentGroup<Leaf>& group = to[nodes[i] / kFanout];
    const std::size_t slot = nodes[i] % kFanout;
    summarize<Leaf, kLine<Leaf>>(line, line, line, group, slot);
    if (nodes[i] == whole) {
      // Leaves beyond the last are 0: they add nothing to the sum, but must not become an extreme.
      group.min[slot] = *std::min_element(line, leaves.data() + leaves.size());
      group.max[slot] = *std::max_element(line, leaves.data() + leaves.size());
    }
  }
}

template <class Leaf>
void summarize_groups(const SegmentGroup<Leaf>* from, std::span<const std::size_t> nodes,
                      SegmentGroup<Leaf>* to) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::size_t ahead = nodes[std::min(i + kAhead, nodes.size() - 1)];
    hwy::Prefetch(to[ahead / kFanout].sum);
    hwy::Prefetch(to[ahead / kFanout].min);
    const SegmentGroup<Leaf>& group = from[nodes[i]];
    summarize<Leaf, kFanout>(group.sum, group.min, group.max, to[nodes[i] / kFanout],
                             nodes[i] % kFanout);
  }
}

/// Finds, among kCount values of at least 0, the one on which the target falls, which is above 0;
/// at least one has to be above 0. The target becomes the position within it.
template <std::size_t kCount, class T>
HWY_INLINE std::size_t pick(const T* values, double& target) {
  const Doubles d;
  constexpr std::size_t kLanes = hn::MaxLanes(Doubles());
  // The beginning of each value is stored one place before its end.
  alignas(64) double bounds[kFanout + kCount] = {};
  double* const ends = bounds + kFanout;
  auto sum = hn::Zero(d);
  for (std::size_t i = 0; i < kCount; i += kFanout) {
    Eight<Doubles> x;
    for (std::size_t j = 0; j < vectors_of(d); ++j) {
      x[j] = load_doubles(values + i + j * kLanes);
    }
    prefix_sums(d, x);
    for (auto& v : x) {
      v = hn::Add(v, sum);
    }
    sum = last_lane(d, x[vectors_of(d) - 1]);
    store_eight(d, x, ends + i);
  }
  // Rounding may have carried the target beyond the sum: the largest double below the sum is the
  // last position inside.
  const double inside = std::bit_cast<double>(std::bit_cast<std::uint64_t>(hn::GetLane(sum)) - 1);
  target = std::min(target, inside);
  const auto limit = hn::Set(d, target);
  std::size_t child = 0;
  for (std::size_t i = 0; i < kCount; i += kLanes) {
    child += hn::CountTrue(d, hn::Le(hn::Load(d, ends + i), limit));
  }
  target -= bounds[kFanout - 1 + child];
  return child;
}

template <class Leaf>
void descend(const SegmentGroup<Leaf>* level, std::span<double> targets, std::size_t* nodes,
             const void* below, std::size_t stride) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    nodes[i] = nodes[i] * kFanout + pick<kFanout>(level[nodes[i]].sum, targets[i]);
    hwy::Prefetch(static_cast<const char*>(below) + nodes[i] * stride);
  }
}

template <class Leaf>
void land(const Leaf* leaves, std::span<const double> targets, std::size_t* nodes) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::size_t first = nodes[i] * kLine<Leaf>;
    double target = targets[i];
    nodes[i] = first + pick<kLine<Leaf>>(leaves + first, target);
  }
}

/// Calls line(which, from, to) and group(its group, from, to) for the parts that together make up
/// the range: on each level the places at its edges that fill no parent.
template <class Leaf, class Line, class Grouped>
HWY_INLINE void for_each_part(const SegmentRange<Leaf>& range, const Line& line,
                              const Grouped& group) {
  std::size_t first = range.first;
  std::size_t last = range.last;
  // There is nothing beyond the last leaf, so a range up to it has no right edge.
  const bool open = last == range.leaves.size();
  // Goes one level up; false if nothing is left.
  const auto climb = [&](std::size_t children, const auto& part) HWY_ATTR {
    const std::size_t from = first % children;
    if (!open && first / children == last / children) {
      part(first / children, from, last % children);
      return false;
    }
    if (from != 0) {
      part(first / children, from, children);
    }
    if (!open && last % children != 0) {
      part(last / children, std::size_t{0}, last % children);
    }
    first = first / children + (from != 0 ? 1U : 0U);
    last /= children;
    return true;
  };
  bool more = climb(kLine<Leaf>, line);
  for (std::size_t level = 0; more && level + 1 < range.levels.size(); ++level) {
    more = climb(kFanout, [&](std::size_t at, std::size_t from, std::size_t to)
                              HWY_ATTR { group(range.levels[level][at], from, to); });
  }
  if (more && first == 0) {
    group(*range.levels.back(), std::size_t{0}, std::size_t{1});
  }
}

/// Mask of the lanes, `at` to at + Lanes(d), that lie in the places from `from` to before `to`.
template <class D>
HWY_INLINE hn::Mask<D> places(D d, std::size_t at, std::size_t from, std::size_t to) {
  using T = hn::TFromD<D>;
  const auto lane = hn::Iota(d, static_cast<T>(at));
  return hn::And(hn::Ge(lane, hn::Set(d, static_cast<T>(from))),
                 hn::Lt(lane, hn::Set(d, static_cast<T>(to))));
}

template <class Leaf>
double sum(const SegmentRange<Leaf>& range) {
  const Doubles d;
  constexpr std::size_t kLanes = hn::MaxLanes(Doubles());
  Eight<Doubles> sums;
  for (auto& v : sums) {
    v = hn::Zero(d);
  }
  const auto include = [&](const auto* values, std::size_t from, std::size_t to) HWY_ATTR {
    for (std::size_t i = 0; i < vectors_of(d); ++i) {
      sums[i] = hn::Add(sums[i], hn::IfThenElseZero(places(d, i * kLanes, from, to),
                                                    load_doubles(values + i * kLanes)));
    }
  };
  for_each_part(
      range,
      [&](std::size_t at, std::size_t from, std::size_t to) HWY_ATTR {
        const Leaf* const line = range.leaves.data() + at * kLine<Leaf>;
        for (std::size_t i = 0; i < kLine<Leaf>; i += kFanout) {
          include(line + i, std::max(from, i) - i, std::max(to, i) - i);
        }
      },
      [&](const SegmentGroup<Leaf>& group, std::size_t from, std::size_t to)
          HWY_ATTR { include(group.sum, from, to); });
  return fold<kFanout>(d, Plus(), [&](std::size_t i) HWY_ATTR { return sums[i / kLanes]; });
}

template <class Leaf>
Extremes<Leaf> extremes(const SegmentRange<Leaf>& range) {
  const hn::CappedTag<Leaf, kFanout> d;
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  const auto infinity = hn::Set(d, std::numeric_limits<Leaf>::infinity());
  hn::Vec<decltype(d)> minima[kFanout / kLanes];
  hn::Vec<decltype(d)> maxima[kFanout / kLanes];
  for (std::size_t i = 0; i < kFanout / kLanes; ++i) {
    minima[i] = infinity;
    maxima[i] = hn::Neg(infinity);
  }
  const auto include = [&](const Leaf* min, const Leaf* max, std::size_t from,
                           std::size_t to) HWY_ATTR {
    for (std::size_t i = 0; i < kFanout / kLanes; ++i) {
      const auto mask = places(d, i * kLanes, from, to);
      const auto low = hn::IfThenElse(mask, hn::Load(d, min + i * kLanes), infinity);
      const auto high = hn::IfThenElse(mask, hn::Load(d, max + i * kLanes), hn::Neg(infinity));
      minima[i] = hn::Min(minima[i], low);
      maxima[i] = hn::Max(maxima[i], high);
    }
  };
  for_each_part(
      range,
      [&](std::size_t at, std::size_t from, std::size_t to) HWY_ATTR {
        const Leaf* const line = range.leaves.data() + at * kLine<Leaf>;
        to = std::min(to, range.leaves.size() - at * kLine<Leaf>);
        for (std::size_t i = 0; i < kLine<Leaf>; i += kFanout) {
          include(line + i, line + i, std::max(from, i) - i, std::max(to, i) - i);
        }
      },
      [&](const SegmentGroup<Leaf>& group, std::size_t from, std::size_t to)
          HWY_ATTR { include(group.min, group.max, from, to); });
  return {fold<kFanout>(d, Least(), [&](std::size_t i) HWY_ATTR { return minima[i / kLanes]; }),
          fold<kFanout>(d, Most(), [&](std::size_t i) HWY_ATTR { return maxima[i / kLanes]; })};
}

template <class Leaf>
void scale(std::span<Leaf> leaves, Leaf factor) {
  for (Leaf& leaf : leaves) {
    leaf = leaf * factor + Leaf{0};
  }
}

template <class Leaf>
void add(std::span<Leaf> leaves, Leaf value) {
  for (Leaf& leaf : leaves) {
    leaf = leaf + value + Leaf{0};
  }
}

template <class Leaf>
const SegmentKernels<Leaf>& kernels() {
  static constexpr SegmentKernels<Leaf> kAll = {summarize_lines<Leaf>,
                                                summarize_groups<Leaf>,
                                                descend<Leaf>,
                                                land<Leaf>,
                                                sum<Leaf>,
                                                extremes<Leaf>,
                                                scale<Leaf>,
                                                add<Leaf>};
  return kAll;
}
const SegmentKernels<float>& float_kernels() {
  return kernels<float>();
}
const SegmentKernels<double>& double_kernels() {
  return kernels<double>();
}

}  // namespace reprise::segment_tree::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise::segment_tree {

HWY_EXPORT(float_kernels);
HWY_EXPORT(double_kernels);

template <>
const SegmentKernels<float>& segment_kernels<float>() noexcept {
  return HWY_DYNAMIC_DISPATCH(float_kernels)();
}

template <>
const SegmentKernels<double>& segment_kernels<double>() noexcept {
  return HWY_DYNAMIC_DISPATCH(double_kernels)();
}

}  // namespace reprise::segment_tree
#endif
