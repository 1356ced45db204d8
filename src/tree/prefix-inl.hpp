// Combinations of a node's children, for the kernels. Sources include this file after
// tree/simd.hpp. Like that file, it is read once per target and has no `#pragma once`.

#include "tree/kernels.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace reprise::tree::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// How many vectors of D eight doubles need. `Eight` is an array of that many.
template <class D>
constexpr std::size_t vectors_of(D) {
  return kFanout / hn::MaxLanes(D());
}
template <class D>
using Eight = hn::Vec<D>[vectors_of(D())];

struct Plus {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
struct Minimum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Min(a, b);
  }
};

// Some functions are called without hn::, because the target of single lanes does not declare them.
// In the other targets, argument-dependent lookup finds them.

/// Takes the rows as one sequence of elements. Combines neighbouring elements, then neighbouring
/// results, until one vector is left. The rows are overwritten.
template <std::size_t kRows, class D, class Combine>
HWY_INLINE hn::Vec<D> fold(D d, Combine combine, hn::Vec<D>* rows) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  if constexpr (kRows == 1) {
    return rows[0];
  } else if constexpr (kRows == 4 && kLanes == 4 && sizeof(hn::TFromD<D>) == 8) {
    // AVX2: ConcatEven of doubles would be two instructions.
    const auto pairs = [&](std::size_t i) HWY_ATTR {
      return combine(InterleaveLower(d, rows[i], rows[i + 1]),
                     InterleaveUpper(d, rows[i], rows[i + 1]));
    };
    const auto low = pairs(0);
    const auto high = pairs(2);
    return combine(ConcatLowerLower(d, high, low), ConcatUpperUpper(d, high, low));
  } else {
    for (std::size_t i = 0; i < kRows / 2; ++i) {
      rows[i] = combine(ConcatEven(d, rows[2 * i + 1], rows[2 * i]),
                        ConcatOdd(d, rows[2 * i + 1], rows[2 * i]));
    }
    return fold<kRows / 2>(d, combine, rows);
  }
}

/// Loads a vector. Floats may be loaded as doubles.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_as(D d, const T* from) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    return hn::Load(d, from);
  } else {
    return hn::PromoteTo(d, hn::Load(hn::Rebind<T, D>(), from));
  }
}
template <class D, class T>
HWY_INLINE void load_eight(D d, const T* from, Eight<D>& to) {
  for (std::size_t i = 0; i < vectors_of(D()); ++i) {
    to[i] = load_as(d, from + i * hn::MaxLanes(d));
  }
}

/// For each block of 2 * kStep lanes: the block's lane kStep - 1 in all lanes of its upper half,
/// and 0 in the lower half.
template <std::size_t kStep, class D>
HWY_INLINE hn::Vec<D> carry(D d, hn::Vec<D> v) {
  if constexpr (kStep == 1) {
    return hn::OddEven(hn::DupEven(v), hn::Zero(d));
  } else {
    alignas(64) std::int64_t from[kFanout];
    alignas(64) double in_upper[kFanout];
    for (std::size_t i = 0; i < hn::MaxLanes(d); ++i) {
      const bool upper = (i & kStep) != 0;
      from[i] = static_cast<std::int64_t>(upper ? (i & ~(2 * kStep - 1)) + kStep - 1 : i);
      in_upper[i] = upper ? 1.0 : 0.0;
    }
    const auto shuffled = hn::TableLookupLanes(v, hn::SetTableIndices(d, from));
    return hn::IfThenElseZero(hn::Gt(hn::Load(d, in_upper), hn::Zero(d)), shuffled);
  }
}

/// The last lane of a vector, in all lanes.
template <class D>
HWY_INLINE hn::Vec<D> last_lane(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 1) {
    return v;
  } else {
    alignas(64) std::int64_t from[kFanout];
    std::fill_n(from, hn::MaxLanes(d), static_cast<std::int64_t>(hn::MaxLanes(d) - 1));
    return hn::TableLookupLanes(v, hn::SetTableIndices(d, from));
  }
}

/// One of Sklansky's steps (1960): in each block of 2 * kStep values, the last one of the lower
/// half is added to all of the upper half.
template <std::size_t kStep, class D>
HWY_INLINE void prefix_step(D d, Eight<D>& x) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  if constexpr (kStep < kLanes) {
    for (auto& v : x) {
      v = hn::Add(v, carry<kStep>(d, v));
    }
  } else {
    constexpr std::size_t kVectorStep = kStep / kLanes;
    for (std::size_t i = 0; i < vectors_of(D()); i += 2 * kVectorStep) {
      const auto last = last_lane(d, x[i + kVectorStep - 1]);
      for (std::size_t j = i + kVectorStep; j < i + 2 * kVectorStep; ++j) {
        x[j] = hn::Add(x[j], last);
      }
    }
  }
}

/// Inclusive prefix sums that never fall: rounding is monotone, and the prefix sum of a child of 0
/// equals that of the child before. The last one is the sum as tree/kernels.hpp defines it.
template <class D>
HWY_INLINE void prefix_sums(D d, Eight<D>& x) {
  prefix_step<1>(d, x);
  prefix_step<2>(d, x);
  prefix_step<4>(d, x);
}

template <class D>
HWY_INLINE void store_eight(D d, const Eight<D>& x, double* to) {
  for (std::size_t i = 0; i < vectors_of(D()); ++i) {
    hn::Store(x[i], d, to + i * hn::MaxLanes(d));
  }
}

/// How many of kCount values are at most `limit`.
template <std::size_t kCount, class D>
HWY_INLINE std::size_t count_at_most(D d, const double* values, double limit) {
  const auto limits = hn::Set(d, limit);
  std::size_t count = 0;
  for (std::size_t i = 0; i < kCount; i += hn::MaxLanes(d)) {
    count += hn::CountTrue(d, hn::Le(hn::Load(d, values + i), limits));
  }
  return count;
}

/// Returns which of kCount values the target falls on. The values are at least 0, and one of them
/// is above 0; so is the one that is found. The target becomes the position within that value.
template <std::size_t kCount, class D, class T>
HWY_INLINE std::size_t pick(D d, const T* values, double& target) {
  // The beginning of each value is stored one place before its end.
  alignas(64) double bounds[kFanout + kCount];
  double* const ends = bounds + kFanout;
  bounds[kFanout - 1] = 0.0;
  auto sum = hn::Zero(d);
  for (std::size_t i = 0; i < kCount; i += kFanout) {
    Eight<D> x;
    load_eight(d, values + i, x);
    prefix_sums(d, x);
    for (auto& v : x) {
      v = hn::Add(v, sum);
    }
    sum = last_lane(d, x[vectors_of(D()) - 1]);
    store_eight(d, x, ends + i);
  }
  // Rounding may have carried the target beyond the sum: the largest double below the sum is the
  // last position inside.
  const double inside = std::bit_cast<double>(std::bit_cast<std::uint64_t>(hn::GetLane(sum)) - 1);
  target = std::min(target, inside);
  const std::size_t child = count_at_most<kCount>(d, ends, target);
  target -= bounds[kFanout - 1 + child];
  return child;
}

}  // namespace reprise::tree::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
