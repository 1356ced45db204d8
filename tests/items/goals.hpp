#pragma once

#include "testing/test.hpp"

namespace reprise::test {

/// The results of one call of `Hindsight::relabel`.
struct Goals {
  std::vector<std::uint64_t> goals;
  std::vector<std::int32_t> distances;
  std::size_t relabelled = 0;
};

/// The value of all goals before the call, which stands for a goal that was not changed.
inline constexpr std::uint64_t kUnchangedGoal = 1U << 30U;

/// The value of all distances before the call.
inline constexpr std::int32_t kUnchangedDistance = 99;

inline Goals relabel(Hindsight& hindsight, std::span<const ItemKey> keys) {
  Goals result{std::vector(keys.size(), kUnchangedGoal),
               std::vector(keys.size(), kUnchangedDistance)};
  result.relabelled = hindsight.relabel(keys, std::span(result.goals), std::span(result.distances));
  return result;
}

/// Counts how often each distance occurs if one item is relabelled `calls` times.
inline std::map<std::int32_t, int> count_distances(Hindsight& hindsight, ItemKey key, int calls) {
  const std::vector<ItemKey> keys(static_cast<std::size_t>(calls), key);
  std::map<std::int32_t, int> counts;
  for (const std::int32_t distance : relabel(hindsight, keys).distances) {
    ++counts[distance];
  }
  return counts;
}

inline Options options_of(std::size_t shards, std::uint32_t chunk_steps) {
  return SmallOptions{.chunk_steps = chunk_steps, .shards = shards};
}

/// Expects each distance from `first` to `last`, except 0, to occur equally often, and no other
/// distance. Counts may be five standard deviations from their mean.
inline void expect_uniform(const std::map<std::int32_t, int>& counts, std::int32_t first,
                           std::int32_t last) {
  std::set<std::int32_t> expected;
  for (std::int32_t distance = first; distance <= last; ++distance) {
    expected.insert(distance);
  }
  expected.erase(0);
  double total = 0;
  for (const auto& [distance, count] : counts) {
    EXPECT_TRUE(expected.contains(distance)) << distance;
    total += count;
  }
  const double mean = total / static_cast<double>(expected.size());
  for (const std::int32_t distance : expected) {
    EXPECT_TRUE(counts.contains(distance)) << distance;
    EXPECT_NEAR(counts.contains(distance) ? counts.at(distance) : 0, mean, 5 * std::sqrt(mean));
  }
}

}  // namespace reprise::test
