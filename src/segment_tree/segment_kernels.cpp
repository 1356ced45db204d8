#include "segment_tree/segment_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "segment_tree/segment_kernels.cpp"
#include "tree/simd.hpp"
// Included after the choice of targets.
#include "tree/prefix-inl.hpp"

#include <algorithm>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace reprise::segment_tree::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using tree::kFanout;
using tree::HWY_NAMESPACE::Eight;
using tree::HWY_NAMESPACE::load_as;
using tree::HWY_NAMESPACE::Minimum;
using tree::HWY_NAMESPACE::pick;
using tree::HWY_NAMESPACE::Plus;

using Doubles = hn::CappedTag<double, kFanout>;
/// Lanes that fill a cache line, or a vector if that is smaller.
template <class T>
using Lanes = hn::CappedTag<T, kLine<T>>;

/// Number of elements by which memory is prefetched ahead.
constexpr std::size_t kAhead = 24;

struct Maximum {
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
    // Called without hn::, because the target of single lanes does not declare these functions.
    return fold_lanes(half, combine(LowerHalf(half, v), UpperHalf(half, v)), combine);
  }
}

/// Like `fold_lanes`, for kCount values: load(i) returns a vector of the values from place i on.
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

/// Writes the sum, minimum and maximum of a node with kCount children.
template <class Leaf, std::size_t kCount, class Sum>
HWY_INLINE void summarize(const Sum* sums, const Leaf* minima, const Leaf* maxima,
                          SegmentGroup<Leaf>& to, std::size_t slot) {
  const hn::CappedTag<Leaf, kCount> d;
  const auto load_sums = [&](std::size_t i) HWY_ATTR { return load_as(Doubles(), sums + i); };
  const auto load_minima = [&](std::size_t i) HWY_ATTR { return hn::Load(d, minima + i); };
  const auto load_maxima = [&](std::size_t i) HWY_ATTR { return hn::Load(d, maxima + i); };
  to.sum[slot] = fold<kCount>(Doubles(), Plus(), load_sums);
  to.min[slot] = fold<kCount>(d, Minimum(), load_minima);
  to.max[slot] = fold<kCount>(d, Maximum(), load_maxima);
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
      // The places behind the last leaf are 0: they add nothing to the sum, but must not become the
      // minimum or maximum.
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

template <class Leaf>
void descend(const SegmentGroup<Leaf>* level, std::span<double> targets, std::size_t* nodes,
             const void* below, std::size_t stride) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    nodes[i] = nodes[i] * kFanout + pick<kFanout>(Doubles(), level[nodes[i]].sum, targets[i]);
    hwy::Prefetch(static_cast<const char*>(below) + nodes[i] * stride);
  }
}

template <class Leaf>
void find_leaf(const Leaf* leaves, std::span<const double> targets, std::size_t* nodes) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::size_t first = nodes[i] * kLine<Leaf>;
    double target = targets[i];
    nodes[i] = first + pick<kLine<Leaf>>(Doubles(), leaves + first, target);
  }
}

/// Splits a range into parts: on each level the places at the range's edges that do not fill a
/// parent. Calls line(number, from, to) for a part of a line of leaves, and group(group, from, to)
/// for a part of a group of nodes.
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

/// A mask of the lanes whose places are in [from, to). The first lane has the place `at`.
template <class D>
HWY_INLINE hn::Mask<D> places(D d, std::size_t at, std::size_t from, std::size_t to) {
  using T = hn::TFromD<D>;
  const auto lane = hn::Iota(d, static_cast<T>(at));
  return hn::And(hn::Ge(lane, hn::Set(d, static_cast<T>(from))),
                 hn::Lt(lane, hn::Set(d, static_cast<T>(to))));
}

/// Combines one member of groups over a range. `nothing`: the neutral element of `combine`.
template <class Leaf, class T, class Combine>
HWY_INLINE T combine_range(const SegmentRange<Leaf>& range,
                           const T (SegmentGroup<Leaf>::*member)[kFanout], T nothing,
                           Combine combine) {
  const hn::CappedTag<T, kFanout> d;
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  hn::Vec<decltype(d)> x[kFanout / kLanes];
  for (auto& v : x) {
    v = hn::Set(d, nothing);
  }
  const auto include = [&](const auto* values, std::size_t from, std::size_t to) HWY_ATTR {
    for (std::size_t i = 0; i < kFanout / kLanes; ++i) {
      const auto v = load_as(d, values + i * kLanes);
      x[i] = combine(x[i], hn::IfThenElse(places(d, i * kLanes, from, to), v, hn::Set(d, nothing)));
    }
  };
  for_each_part(
      range,
      [&](std::size_t at, std::size_t from, std::size_t to) HWY_ATTR {
        const Leaf* const line = range.leaves.data() + at * kLine<Leaf>;
        if constexpr (!std::is_same_v<Combine, Plus>) {
          // Leaves beyond the last are 0: they add nothing, but must not become an extreme.
          to = std::min(to, range.leaves.size() - at * kLine<Leaf>);
        }
        for (std::size_t i = 0; i < kLine<Leaf>; i += kFanout) {
          include(line + i, std::max(from, i) - i, std::max(to, i) - i);
        }
      },
      [&](const SegmentGroup<Leaf>& group, std::size_t from, std::size_t to)
          HWY_ATTR { include(group.*member, from, to); });
  return fold<kFanout>(d, combine, [&](std::size_t i) HWY_ATTR { return x[i / kLanes]; });
}

template <class Leaf>
double sum(const SegmentRange<Leaf>& range) {
  return combine_range<Leaf, double>(range, &SegmentGroup<Leaf>::sum, 0.0, Plus());
}
template <class Leaf>
Leaf min(const SegmentRange<Leaf>& range) {
  return combine_range<Leaf, Leaf>(range, &SegmentGroup<Leaf>::min, kMinOfNone<Leaf>, Minimum());
}
template <class Leaf>
Leaf max(const SegmentRange<Leaf>& range) {
  return combine_range<Leaf, Leaf>(range, &SegmentGroup<Leaf>::max, -kMinOfNone<Leaf>, Maximum());
}

template <class Leaf>
void transform(std::span<Leaf> leaves, Leaf factor, Leaf value) {
  // The sum of a leaf and a value of at least this is never denormal, because it is 0 or no less
  // than the last place of one of them. Nor is a product with at least 1.
  constexpr Leaf kLarge =
      2 / std::numeric_limits<Leaf>::epsilon() * std::numeric_limits<Leaf>::min();
  if (std::abs(factor) >= 1 && (value == 0 || std::abs(value) >= kLarge)) {
    for (Leaf& leaf : leaves) {
      leaf = leaf * factor + value;
    }
    return;
  }
  for (Leaf& leaf : leaves) {
    leaf = as_stored(leaf * factor + value);
  }
}

template <class Leaf>
const SegmentKernels<Leaf>& kernels() {
  static constexpr SegmentKernels<Leaf> kAll = {summarize_lines<Leaf>,
                                                summarize_groups<Leaf>,
                                                descend<Leaf>,
                                                find_leaf<Leaf>,
                                                sum<Leaf>,
                                                min<Leaf>,
                                                max<Leaf>,
                                                transform<Leaf>};
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
