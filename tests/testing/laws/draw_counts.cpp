#include "draw_counts.hpp"

#include "testing/statistics/chi_square.hpp"
#include "testing/test.hpp"

namespace reprise::test {

double DrawCounts::z() const {
  double sum = 0.0;
  for (const auto& [number, expected] : expected_) {
    sum += expected;
  }
  std::map<std::uint64_t, double> all = expected_;
  for (const auto& [number, count] : counts_) {
    all.try_emplace(number, 0.0);
  }
  std::vector<std::uint64_t> counts;
  std::vector<double> probabilities;
  for (const auto& [number, expected] : all) {
    const auto drawn = counts_.find(number);
    counts.push_back(drawn == counts_.end() ? 0 : drawn->second);
    probabilities.push_back(expected / sum);
  }
  return chi_square_z(counts, probabilities);
}

}  // namespace reprise::test
