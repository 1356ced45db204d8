#include "chi_square.hpp"

#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// Cells with fewer expected draws are pooled, because with such cells the statistic would not
/// follow the chi-square distribution.
constexpr double kMinExpected = 5.0;

}  // namespace

double chi_square_z(std::span<const std::uint64_t> counts, std::span<const double> probabilities) {
  const auto draws =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  double statistic = 0.0;
  double pooled_count = 0.0;
  double pooled_expected = 0.0;
  double cells = 0.0;
  const auto add_cell = [&](double count, double expected) {
    statistic += (count - expected) * (count - expected) / expected;
    cells += 1.0;
  };
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * probabilities[i];
    const auto count = static_cast<double>(counts[i]);
    if (probabilities[i] <= 0.0) {
      if (counts[i] != 0) {
        return std::numeric_limits<double>::infinity();
      }
      continue;
    }
    if (expected >= kMinExpected) {
      add_cell(count, expected);
      continue;
    }
    pooled_count += count;
    pooled_expected += expected;
    if (pooled_expected >= kMinExpected) {
      add_cell(pooled_count, pooled_expected);
      pooled_count = 0.0;
      pooled_expected = 0.0;
    }
  }
  if (pooled_expected > 0.0) {
    add_cell(pooled_count, pooled_expected);
  }
  const double freedom = cells - 1.0;
  if (freedom < 1.0) {
    return 0.0;
  }
  const double shrink = 2.0 / (9.0 * freedom);
  return (std::cbrt(statistic / freedom) - (1.0 - shrink)) / std::sqrt(shrink);
}

}  // namespace reprise::test
