#pragma once

#include "testing/test.hpp"

namespace reprise::test {

/// A z-score for how well counts fit these probabilities: Pearson's chi-square statistic, made a
/// standard normal variable by the Wilson-Hilferty approximation (1931). The result is infinite if
/// a cell of probability 0 has a count; sparse cells are pooled.
double chi_square_z(std::span<const std::uint64_t> counts, std::span<const double> probabilities);

/// The bound of |z| for tests whose draws follow from a fixed seed. Chance alone exceeds it for one
/// seed in two million.
inline constexpr double kMaxZ = 5.0;
/// The bound of |z| for tests whose draws depend on the timing of threads, so that a fixed seed
/// does not repeat them. Chance alone exceeds it once in 10^10 runs.
inline constexpr double kNeverByChance = 6.5;

}  // namespace reprise::test
