#include "select/rank_weights.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace reprise::select {
namespace {

/// Knots are the floats whose mantissa bits after the first 5 are 0.
constexpr unsigned kKnotShift = 23 - 5;
constexpr std::uint32_t kFirstKnot = std::bit_cast<std::uint32_t>(1.0F) >> kKnotShift;

double knot(std::uint32_t index) noexcept {
  return static_cast<double>(std::bit_cast<float>((kFirstKnot + index) << kKnotShift));
}

}  // namespace

RankWeights::RankWeights(double alpha) : alpha_(alpha) {
  for (std::size_t rank = 1; rank <= kExact; ++rank) {
    powers_[rank] = std::pow(static_cast<double>(rank), -alpha);
  }
  for (std::uint32_t i = 0; i < knots_.size(); ++i) {
    knots_[i] = std::pow(knot(i), -alpha);
  }
  for (std::size_t i = 0; i < kTerms; ++i) {
    terms_[i] = -(alpha + static_cast<double>(i)) / static_cast<double>(i + 1);
  }
}

/// rank^-alpha for a rank of 1 to 2^33, from the power of the knot below and the binomial series.
double RankWeights::power(double rank) const noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(rank));
  const std::uint32_t index = (bits >> kKnotShift) - kFirstKnot;
  const double below = knot(index);
  const double t = (rank - below) / below;
  double series = 1.0;
  for (std::size_t i = kTerms; i-- > 0;) {
    series = 1.0 + series * terms_[i] * t;
  }
  return knots_[index] * series;
}

/// Integral of x^-alpha, computed without cancellation, also for alpha near 1.
double RankWeights::integral(double from, double to) const noexcept {
  const double width = std::log(to / from);
  const double exponent = 1.0 - alpha_;
  const double ratio = exponent == 0.0 ? width : std::expm1(exponent * width) / exponent;
  return std::pow(from, exponent) * ratio;
}

double RankWeights::mean(std::uint64_t before, std::uint64_t count) const noexcept {
  if (before >= kExact && count <= before / 8) {
    // The power of the middle, corrected by the second term of its Taylor series.
    const double middle = static_cast<double>(before) + (static_cast<double>(count) + 1.0) / 2.0;
    const double width = static_cast<double>(count) / middle;
    const double bend = (width * width - 1.0 / (middle * middle)) / 24.0;
    return power(middle) * (1.0 + alpha_ * (alpha_ + 1.0) * bend);
  }
  const std::uint64_t end = before + count;
  const std::uint64_t exact = std::max<std::uint64_t>(std::min<std::uint64_t>(end, kExact), before);
  double sum = 0.0;
  for (std::uint64_t rank = exact; rank > before; --rank) {
    sum += powers_[rank];
  }
  if (end > exact) {
    sum += integral(static_cast<double>(exact) + 0.5, static_cast<double>(end) + 0.5);
  }
  return sum / static_cast<double>(count);
}

}  // namespace reprise::select
