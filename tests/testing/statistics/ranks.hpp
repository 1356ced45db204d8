#pragma once

#include "testing/test.hpp"

namespace reprise::test {

/// The exact distribution of `RankBased`: rank^-alpha, averaged over items of equal priority, and
/// divided by the sum. A priority of -1 stands for no item.
inline std::vector<double> rank_probabilities(std::span<const float> priorities, double alpha) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < priorities.size(); ++i) {
    if (priorities[i] >= 0.0F) {
      order.push_back(i);
    }
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return priorities[a] > priorities[b]; });
  std::vector<double> probabilities(priorities.size());
  double total = 0.0;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    double sum = 0.0;
    while (end < order.size() && priorities[order[end]] == priorities[order[begin]]) {
      sum += std::pow(static_cast<double>(++end), -alpha);
    }
    for (std::size_t i = begin; i < end; ++i) {
      probabilities[order[i]] = sum / static_cast<double>(end - begin);
    }
    total += sum;
  }
  for (double& probability : probabilities) {
    probability /= total;
  }
  return probabilities;
}

/// The exact distribution of `Mixture` whose weights are these priorities, which are at least 0.
inline std::vector<double> mixed_probabilities(std::span<const float> priorities, double uniform) {
  if (priorities.empty()) {
    return {};
  }
  const double total = std::accumulate(priorities.begin(), priorities.end(), 0.0);
  const double alike = (total > 0.0 ? uniform : 1.0) / static_cast<double>(priorities.size());
  const double scale = total > 0.0 ? (1.0 - uniform) / total : 0.0;
  std::vector<double> probabilities;
  for (const float priority : priorities) {
    probabilities.push_back(alike + scale * static_cast<double>(priority));
  }
  return probabilities;
}

/// The total variation distance: half the sum of the absolute differences.
inline double total_variation(std::span<const double> a, std::span<const double> b) {
  return std::transform_reduce(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                               [](double x, double y) { return std::abs(x - y); }) /
         2.0;
}

}  // namespace reprise::test
