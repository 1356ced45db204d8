#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace reprise::select {

/// Computes the weight of the items in a bucket of ranks: the mean of rank^-alpha over it.
///
/// Const after construction, so any thread.
class RankWeights {
 public:
  explicit RankWeights(double alpha);

  /// The mean over the ranks before + 1 to before + count; before + count is at most 2^33, and
  /// count at least 1. Exact for one of the first `kExact` ranks, else to 1e-3 relative, or 2e-5
  /// for alpha up to 2.
  [[nodiscard]] double mean(std::uint64_t before, std::uint64_t count) const noexcept;

  /// Ranks whose powers are stored.
  static constexpr std::size_t kExact = 128;

 private:
  static constexpr std::size_t kKnotsPerOctave = 32;
  static constexpr std::size_t kOctaves = 34;
  static constexpr std::size_t kTerms = 5;

  [[nodiscard]] double power(double rank) const noexcept;
  [[nodiscard]] double integral(double from, double to) const noexcept;

  double alpha_;
  /// Powers of the first ranks, from 1 on.
  std::array<double, kExact + 1> powers_{};
  /// Powers of the knots, geometrically spaced.
  std::array<double, kKnotsPerOctave * kOctaves> knots_{};
  /// Terms of (1 + t)^-alpha, each relative to the one before.
  std::array<double, kTerms> terms_{};
};

}  // namespace reprise::select
