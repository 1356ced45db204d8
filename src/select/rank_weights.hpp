#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace reprise::select {

/// Computes the weight of the items in a bucket of ranks: the mean of rank^-alpha over the bucket.
///
/// Const after construction, so any thread.
class RankWeights {
 public:
  explicit RankWeights(double alpha) : alpha_(alpha) {
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

  /// The mean over the ranks before + 1 to before + count; before + count is at most 2^33, and
  /// count at least 1. Exact within the first `kExact` ranks; otherwise with a relative error of at
  /// most 1e-3, or 2e-5 for alpha up to 2.
  [[nodiscard]] double mean(std::uint64_t before, std::uint64_t count) const noexcept {
    if (before >= kExact && count <= before / kNarrow) {
      // The power of the middle, corrected by the second term of its Taylor series.
      const double middle = static_cast<double>(before) + (static_cast<double>(count) + 1.0) / 2.0;
      const double width = static_cast<double>(count) / middle;
      const double bend = (width * width - 1.0 / (middle * middle)) / 24.0;
      return power(middle) * (1.0 + alpha_ * (alpha_ + 1.0) * bend);
    }
    const std::uint64_t end = before + count;
    const std::uint64_t exact =
        std::max<std::uint64_t>(std::min<std::uint64_t>(end, kExact), before);
    double sum = 0.0;
    for (std::uint64_t rank = exact; rank > before; --rank) {
      sum += powers_[rank];
    }
    if (end > exact) {
      sum += integral(static_cast<double>(exact) + 0.5, static_cast<double>(end) + 0.5);
    }
    return sum / static_cast<double>(count);
  }

  /// How many ranks, from 1 on, have stored powers.
  static constexpr std::size_t kExact = 128;

 private:
  /// Ranges of at most this part of the ranks before them are so narrow that two terms suffice.
  static constexpr std::uint64_t kNarrow = 8;
  static constexpr std::size_t kKnotsPerOctave = 32;
  static constexpr std::size_t kOctaves = 34;  ///< For ranks of up to 2^33.
  static constexpr std::size_t kTerms = 5;

  /// Knots are the floats whose 23 bits of mantissa are 0 behind the first 5: 32 per octave.
  static constexpr unsigned kKnotShift = 23 - 5;
  static constexpr std::uint32_t kFirstKnot = std::bit_cast<std::uint32_t>(1.0F) >> kKnotShift;

  [[nodiscard]] static double knot(std::uint32_t index) noexcept {
    return static_cast<double>(std::bit_cast<float>((kFirstKnot + index) << kKnotShift));
  }
  /// rank^-alpha for a rank of 1 to 2^33, from the power of the knot below and the binomial series.
  [[nodiscard]] double power(double rank) const noexcept {
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
  [[nodiscard]] double integral(double from, double to) const noexcept {
    const double width = std::log(to / from);
    const double exponent = 1.0 - alpha_;
    const double ratio = exponent == 0.0 ? width : std::expm1(exponent * width) / exponent;
    return std::pow(from, exponent) * ratio;
  }

  double alpha_;
  /// Powers of the first ranks, from 1 on.
  std::array<double, kExact + 1> powers_{};
  /// Powers of the knots, geometrically spaced.
  std::array<double, kKnotsPerOctave * kOctaves> knots_{};
  /// Terms of (1 + t)^-alpha, each relative to the one before.
  std::array<double, kTerms> terms_{};
};

}  // namespace reprise::select
