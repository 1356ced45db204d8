#pragma once

#include "testing/test.hpp"

namespace reprise::test {

/// How many standard deviations Pearson's chi-square statistic of these counts lies from what
/// independent draws with these probabilities give, by the Wilson-Hilferty approximation (1931).
/// Cells of probability 0 must be empty, else the result is infinite; sparse cells are pooled.
double chi_square_z(std::span<const std::uint64_t> counts, std::span<const double> probabilities);

/// The bound of |z| for draws that depend on how threads meet, so that a fixed seed does not repeat
/// them. It is exceeded by chance once in ten thousand million runs.
inline constexpr double kNeverByChance = 6.5;

}  // namespace reprise::test
