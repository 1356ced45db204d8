#include "tree/weighing.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tree/weighing.cpp"
#include "tree/simd.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace reprise::tree::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, 8>;
using Floats = hn::Rebind<float, Doubles>;
using Bits = hn::Rebind<std::uint64_t, Doubles>;
using Vector = hn::Vec<Doubles>;
constexpr std::size_t kLanes = hn::MaxLanes(Doubles());

// Products and sums are never fused, because targets without such an instruction would differ.

HWY_INLINE Vector constant(double value) {
  return hn::Set(Doubles(), value);
}

/// Sum of coefficients[i] * x^i for kCount of them, by Estrin's scheme (1960): the two halves are
/// independent, so neither waits for the other. powers[k] is x^(2^k).
template <std::size_t kCount>
HWY_INLINE Vector polynomial(const Vector* powers, const double* coefficients) {
  if constexpr (kCount == 1) {
    return constant(coefficients[0]);
  } else {
    constexpr std::size_t kLow = std::bit_floor(kCount - 1);
    const Vector low = polynomial<kLow>(powers, coefficients);
    const Vector high = polynomial<kCount - kLow>(powers, coefficients + kLow);
    return hn::Add(low, hn::Mul(high, powers[std::bit_width(kLow) - 1]));
  }
}

template <std::size_t kCount>
HWY_INLINE Vector polynomial(Vector x, const double (&coefficients)[kCount]) {
  Vector powers[3];
  static_assert(kCount <= 8);
  powers[0] = x;
  for (std::size_t k = 1; k < 3; ++k) {
    powers[k] = hn::Mul(powers[k - 1], powers[k - 1]);
  }
  return polynomial<kCount>(powers, coefficients);
}

// The coefficients of both polynomials have the least largest error (Remez 1934).

/// Binary logarithm of normal numbers above 0, absolute error below 1e-11.
/// x = 2^k m with m in [sqrt(1/2), sqrt(2)); with s = (m - 1) / (m + 1), log2 m is
/// 2 / ln 2 * artanh s. The polynomial in s^2 < 0.0295 approximates this divided by s.
HWY_INLINE Vector log2_of(Vector x) {
  const Bits bits;
  const Doubles d;
  constexpr std::uint64_t kBias = 1023;
  constexpr std::uint64_t kSqrtHalf = 0x3FE6A09E667F3BCD;
  constexpr double kTwo52 = 0x1p52;  // 2^52 + n has n in its low bits: converts n without branch.
  const auto raw = hn::BitCast(bits, x);
  const auto from_sqrt_half = hn::Sub(raw, hn::Set(bits, kSqrtHalf));
  const auto biased = hn::ShiftRight<52>(hn::Add(from_sqrt_half, hn::Set(bits, kBias << 52U)));
  const auto k = hn::Sub(hn::BitCast(d, hn::Or(biased, hn::BitCast(bits, constant(kTwo52)))),
                         constant(kTwo52 + static_cast<double>(kBias)));
  const auto m =
      hn::BitCast(d, hn::Sub(raw, hn::ShiftLeft<52>(hn::Sub(biased, hn::Set(bits, kBias)))));
  const auto s = hn::Div(hn::Sub(m, constant(1.0)), hn::Add(m, constant(1.0)));
  constexpr double kTwoOverLn2Artanh[] = {2.8853900818453746, 0.9617966483154239,
                                          0.5770866440033194, 0.4115342213730189,
                                          0.34282036537514277};
  return hn::Add(k, hn::Mul(s, polynomial(hn::Mul(s, s), kTwoOverLn2Artanh)));
}

/// 2^y, relative error below 1e-10; y is clamped to [-1000, 1000], beyond any float.
/// y = n + f with n whole and abs(f) <= 1/2; the polynomial approximates 2^f.
HWY_INLINE Vector exp2_of(Vector y) {
  const Bits bits;
  const Doubles d;
  // Adding this rounds to whole numbers and leaves n + 1023, a double's exponent, in the low bits.
  constexpr double kRounder = 0x1.8p52 + 1023.0;
  const auto clamped = hn::Min(hn::Max(y, constant(-1000.0)), constant(1000.0));
  const auto rounded = hn::Add(clamped, constant(kRounder));
  const auto f = hn::Sub(clamped, hn::Sub(rounded, constant(kRounder)));
  const auto scale = hn::BitCast(d, hn::ShiftLeft<52>(hn::BitCast(bits, rounded)));
  constexpr double kExp2[] = {0.9999999999616819,     0.693147180728447,     0.24022651198157588,
                              0.05550410353448006,    0.009618027253668369,  0.0013333922563519378,
                              0.00015469291141714242, 1.5201921598814663e-05};
  return hn::Mul(polynomial(f, kExp2), scale);
}

/// x^exponent for x normal and above 0.
HWY_INLINE Vector power(Vector x, Vector exponent) {
  return exp2_of(hn::Mul(log2_of(x), exponent));
}

/// Rounds to float; a value beyond its range becomes infinity.
HWY_INLINE hn::Vec<Floats> to_float(Vector v) {
  const Floats f;
  if constexpr (HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128) {
    return hn::DemoteTo(f, v);  // Every instruction set does so; plain C++ gives the largest float.
  } else {
    constexpr double kLargest = std::numeric_limits<float>::max();
    constexpr double kHalfUlpMore = 0x1.ffffffp127;
    const auto over = hn::IfThenElseZero(hn::Ge(v, constant(kHalfUlpMore)), constant(1.0));
    const auto infinity = hn::Set(f, std::numeric_limits<float>::infinity());
    return hn::IfThenElse(hn::Gt(hn::DemoteTo(f, over), hn::Zero(f)), infinity,
                          hn::DemoteTo(f, hn::Min(v, constant(kLargest))));
  }
}

HWY_INLINE Vector load(const float* from) {
  return hn::PromoteTo(Doubles(), hn::LoadU(Floats(), from));
}
HWY_INLINE Vector load(const double* from) {
  return hn::LoadU(Doubles(), from);
}

/// Sets to[i] to second(first(from[i])). A last vector that is not full is padded with ones.
/// `first` is applied to several vectors before `second` is: the processor looks only some hundred
/// instructions ahead, and should find instructions there that do not wait for each other.
template <class T, class First, class Second>
HWY_INLINE void map(std::span<const T> from, std::span<float> to, const First& first,
                    const Second& second) {
  constexpr std::size_t kVectorsPerBlock = 8;
  const auto store = [&](Vector between, float* at)
                         HWY_ATTR { hn::StoreU(to_float(second(between)), Floats(), at); };
  std::size_t i = 0;
  for (; i + kVectorsPerBlock * kLanes <= from.size(); i += kVectorsPerBlock * kLanes) {
    Vector between[kVectorsPerBlock];
    for (std::size_t j = 0; j < kVectorsPerBlock; ++j) {
      between[j] = first(load(from.data() + i + j * kLanes));
    }
    for (std::size_t j = 0; j < kVectorsPerBlock; ++j) {
      store(between[j], to.data() + i + j * kLanes);
    }
  }
  for (; i + kLanes <= from.size(); i += kLanes) {
    store(first(load(from.data() + i)), to.data() + i);
  }
  if (i < from.size()) {
    T in[kLanes];
    float out[kLanes];
    std::fill_n(in, kLanes, T{1});
    std::copy(from.data() + i, from.data() + from.size(), in);
    store(first(load(in)), out);
    std::copy_n(out, from.size() - i, to.data() + i);
  }
}
template <class T, class Curve>
HWY_INLINE void map(std::span<const T> from, std::span<float> to, const Curve& curve) {
  map(from, to, curve, [](Vector v) HWY_ATTR { return v; });
}

void weigh(std::span<const float> priorities, float alpha, float epsilon,
           std::span<float> weights) {
  const auto plus_epsilon = [=](Vector priority)
                                HWY_ATTR { return hn::Add(priority, constant(double{epsilon})); };
  if (alpha == 0.5F) {
    map(priorities, weights, [=](Vector x) HWY_ATTR { return hn::Sqrt(plus_epsilon(x)); });
  } else if (alpha == 1.0F) {
    map(priorities, weights, plus_epsilon);
  } else {
    // The weight of 0 is 2^-1000, which is 0 as a float; no other is below 2^-126, whatever the
    // error of `exp2_of` is.
    constexpr double kLowest = -126.0 + 0x1p-30;
    const auto exponent = [=](Vector priority) HWY_ATTR {
      const auto x = plus_epsilon(priority);
      const auto y = hn::Mul(log2_of(x), constant(double{alpha}));
      return hn::IfThenElse(hn::Gt(x, constant(0.0)), hn::Max(y, constant(kLowest)),
                            constant(-1000.0));
    };
    map(priorities, weights, exponent, [](Vector y) HWY_ATTR { return exp2_of(y); });
  }
}

void raise(std::span<float> weights, double exponent) {
  map(std::span<const float>(weights), weights, [=](Vector weight) HWY_ATTR {
    constexpr double kLargest = std::numeric_limits<float>::max();
    constexpr double kSmallest = std::numeric_limits<float>::min();
    const auto result = power(weight, constant(exponent));
    const auto within = hn::Min(hn::Max(result, constant(kSmallest)), constant(kLargest));
    return hn::IfThenElseZero(hn::Gt(weight, constant(0.0)), within);
  });
}

/// Importance weights of probabilities times `scale`.
void importance(std::span<const double> probabilities, double scale, float beta,
                std::span<float> weights) {
  const auto scaled = [=](Vector p) HWY_ATTR { return hn::Mul(p, constant(scale)); };
  if (beta == 0.5F) {
    map(probabilities, weights,
        [=](Vector p) HWY_ATTR { return hn::Div(constant(1.0), hn::Sqrt(scaled(p))); });
  } else if (beta == 1.0F) {
    map(probabilities, weights,
        [=](Vector p) HWY_ATTR { return hn::Div(constant(1.0), scaled(p)); });
  } else {
    const auto exponent = [=](Vector p) HWY_ATTR {
      return hn::Mul(log2_of(scaled(p)), constant(-double{beta}));
    };
    map(probabilities, weights, exponent, [](Vector y) HWY_ATTR { return exp2_of(y); });
  }
}

}  // namespace reprise::tree::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace reprise::tree {

HWY_EXPORT(weigh);
HWY_EXPORT(raise);
HWY_EXPORT(importance);

void weigh(std::span<const float> priorities, float alpha, float epsilon,
           std::span<float> weights) noexcept {
  if (alpha == 0.0F) {
    std::fill(weights.begin(), weights.end(), 1.0F);
  } else {
    HWY_DYNAMIC_DISPATCH(weigh)(priorities, alpha, epsilon, weights);
  }
}

void raise(std::span<float> weights, double exponent) noexcept {
  HWY_DYNAMIC_DISPATCH(raise)(weights, exponent);
}

void importance(std::span<const double> probabilities, double items, float beta,
                double reference_probability, std::span<float> weights) noexcept {
  if (beta == 0.0F) {
    std::fill(weights.begin(), weights.end(), 1.0F);
  } else {
    const double scale = reference_probability > 0.0 ? 1.0 / reference_probability : items;
    HWY_DYNAMIC_DISPATCH(importance)(probabilities, scale, beta, weights);
    // Beside an item a hundred orders of magnitude less likely, a float would round the weight to
    // 0.
    for (float& weight : weights) {
      weight =
          std::clamp(weight, std::numeric_limits<float>::min(), std::numeric_limits<float>::max());
    }
  }
}

}  // namespace reprise::tree
#endif
