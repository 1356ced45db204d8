// Faults that were found in other replay buffers, and must not be ours.

#include "tree/weight_tree.hpp"
#include "weight_model.hpp"

#include <gtest/gtest.h>

namespace reprise::tree {
namespace {

constexpr std::size_t kMillion = std::size_t{1} << 20U;

/// Draws from random whole weights, and counts how often each leaf came.
struct Experiment {
  Experiment(std::size_t leaves, std::size_t draws, std::uint64_t seed)
      : tree(leaves), drawn(leaves, 0) {
    base::Random random(seed);
    std::vector<float> weights(leaves);
    std::generate(weights.begin(), weights.end(), [&] { return whole_weight(random, 7); });
    tree.assign_run(0, weights);
    std::vector<double> targets(500);
    Found found{std::vector<std::uint32_t>(targets.size()), std::vector<float>(targets.size())};
    for (std::size_t done = 0; done < draws; done += targets.size()) {
      std::generate(targets.begin(), targets.end(),
                    [&] { return random.uniform() * tree.total(); });
      tree.find(targets, found.leaves, found.weights);
      for (const std::uint32_t leaf : found.leaves) {
        ++drawn[leaf];
      }
      count += targets.size();
    }
  }

  WeightTree tree;
  std::vector<std::uint32_t> drawn;
  std::size_t count = 0;
};

/// Standard deviations between the statistic of Pearson and its mean, with the variance of a
/// multinomial that holds for small expectations too.
double chi_square_z(const Experiment& experiment) {
  const auto draws = static_cast<double>(experiment.count);
  double statistic = 0.0;
  double cells = 0.0;
  double inverse = 0.0;
  for (std::uint32_t leaf = 0; leaf < experiment.drawn.size(); ++leaf) {
    const auto weight = static_cast<double>(experiment.tree.weight(leaf));
    if (weight > 0.0) {
      const double probability = weight / experiment.tree.total();
      const double off = static_cast<double>(experiment.drawn[leaf]) - draws * probability;
      statistic += off * off / (draws * probability);
      inverse += 1.0 / probability;
      cells += 1.0;
    }
  }
  const double variance =
      2.0 * (cells - 1.0) + (inverse - cells * cells - 2.0 * cells + 2.0) / draws;
  return (statistic - (cells - 1.0)) / std::sqrt(variance);
}

TEST(RivalFaults, AWriteAcrossTheEndOfTheRingKeepsEachPriorityInItsPlace) {
  constexpr std::size_t kLeaves = 1000;
  for (std::uint32_t first = 900; first < kLeaves; ++first) {
    WeightTree in_runs(kLeaves);
    WeightTree as_batch(kLeaves);
    std::vector<std::uint32_t> leaves(200);
    std::vector<float> weights(200);
    for (std::uint32_t i = 0; i < 200; ++i) {
      leaves[i] = static_cast<std::uint32_t>((first + i) % kLeaves);
      weights[i] = static_cast<float>(i + 1);
    }
    const std::size_t before_end = kLeaves - first;
    in_runs.assign_run(first, std::span(weights).first(before_end));
    in_runs.assign_run(0, std::span(weights).subspan(before_end));
    as_batch.assign(leaves, weights);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      ASSERT_EQ(in_runs.weight(leaves[i]), weights[i]);
      ASSERT_EQ(as_batch.weight(leaves[i]), weights[i]);
    }
    ASSERT_EQ(in_runs.total(), 200.0 * 201.0 / 2.0);
    ASSERT_EQ(as_batch.total(), in_runs.total());
  }
}

TEST(RivalFaults, TheRootIsFreshAfterEverySingleWrite) {
  constexpr std::uint64_t kSeed = 2;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  base::Random random(kSeed);
  WeightTree tree(5000);
  WeightModel model(5000);
  for (int i = 0; i < 2000; ++i) {
    const auto leaf = static_cast<std::uint32_t>(random.next() % 5000);
    model.weights()[leaf] = whole_weight(random, 1U << 20U);
    tree.assign(std::span(&leaf, 1), std::span(&model.weights()[leaf], 1));
    ASSERT_EQ(tree.total(), model.total());
    ASSERT_EQ(tree.max(), model.max());
    ASSERT_EQ(tree.min_positive(), model.min_positive());
  }
}

/// Ten million draws fit their probabilities, and no more leaves than expected were never drawn.
void expect_unbiased(std::size_t leaves) {
  SCOPED_TRACE(testing::Message() << "leaves and seed " << leaves);
  const Experiment experiment(leaves, 10'000'000, leaves);
  EXPECT_LT(std::abs(chi_square_z(experiment)), 5.0);

  double expected = 0.0;
  double variance = 0.0;
  double never = 0.0;
  for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
    const auto weight = static_cast<double>(experiment.tree.weight(leaf));
    if (weight > 0.0) {
      const double missed =
          std::exp(-static_cast<double>(experiment.count) * weight / experiment.tree.total());
      expected += missed;
      variance += missed * (1.0 - missed);
      never += experiment.drawn[leaf] == 0 ? 1.0 : 0.0;
    } else {
      ASSERT_EQ(experiment.drawn[leaf], 0U) << "leaf of weight 0: " << leaf;
    }
  }
  // Misses are negatively correlated, so this variance is an upper bound.
  EXPECT_LT(std::abs(never - expected), 5.0 * std::sqrt(variance) + 1.0);
}

TEST(RivalFaults, DrawsFromAMillionLeavesAreUnbiased) {
  expect_unbiased(kMillion);
}

TEST(RivalFaults, DrawsFromEightMillionLeavesAreUnbiased) {
  expect_unbiased(8 * kMillion);
}

TEST(RivalFaults, TheTailOfTheDistributionIsDrawn) {
  // Leaves so small against the total that a float's sum would swallow them, up to the very end.
  WeightTree tree(kMillion);
  std::vector<float> weights(kMillion, 1.0F);
  weights[0] = 1e9F;
  tree.assign_run(0, weights);
  std::vector<double> targets;
  for (std::size_t i = 0; i < 1000; ++i) {
    targets.push_back(tree.total() - 0.5 - static_cast<double>(i));
  }
  const Found found = find(tree, targets);
  for (std::size_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(found.leaves[i], kMillion - 1 - i);
  }
}

TEST(RivalFaults, SumsOfLargePrioritiesDoNotDrift) {
  constexpr std::uint64_t kSeed = 5;
  constexpr std::size_t kLeaves = 100'000;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  base::Random random(kSeed);
  WeightTree tree(kLeaves);
  std::vector<std::uint32_t> leaves(500);
  std::vector<float> weights(500);
  for (int batch = 0; batch < 2000; ++batch) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      leaves[i] = static_cast<std::uint32_t>(random.next() % kLeaves);
      weights[i] = static_cast<float>(std::exp2(60.0 * random.uniform() - 20.0));
    }
    tree.assign(leaves, weights);
  }
  expect_as_if_fresh(tree, random);
}

TEST(RivalFaults, SpikesLeaveNoTrace) {
  WeightTree tree(kMillion);
  tree.assign_run(0, std::vector(kMillion, 1.0F));
  std::vector<std::uint32_t> leaves;
  for (std::uint32_t i = 0; i < 20; ++i) {
    leaves.push_back(i * 52'001);
  }
  tree.assign(leaves, std::vector(leaves.size(), 1e12F));
  EXPECT_GE(tree.total(), 2e13);
  tree.assign(leaves, std::vector(leaves.size(), 1.0F));
  EXPECT_EQ(tree.total(), static_cast<double>(kMillion));
  EXPECT_EQ(tree.max(), 1.0F);
}

TEST(RivalFaults, ADrawAtZeroSkipsLeavesOfWeightZero) {
  WeightTree tree(1000);
  tree.assign_run(500, std::vector{2.0F});
  EXPECT_EQ(find(tree, {0.0}).leaves[0], 500U);
}

TEST(RivalFaults, ADrawAtTheTotalOrBeyondEndsOnTheLastPositiveLeaf) {
  WeightTree tree(1000);
  tree.assign_run(0, std::vector(500, 0.1F));
  const double total = tree.total();
  const Found found = find(tree, {std::nextafter(total, 0.0), total, 2.0 * total});
  EXPECT_EQ(found.leaves, (std::vector<std::uint32_t>{499, 499, 499}));
}

TEST(RivalFaults, MinimumRisesAgainAfterItsLeafIsRaised) {
  WeightTree tree(1000);
  tree.assign_run(0, std::vector(1000, 2.0F));
  tree.assign(std::vector{700U}, std::vector{0.5F});
  EXPECT_EQ(tree.min_positive(), 0.5F);
  tree.assign(std::vector{700U}, std::vector{3.0F});
  EXPECT_EQ(tree.min_positive(), 2.0F);
}

TEST(RivalFaults, MaximumFallsAgainAfterItsLeafIsLowered) {
  WeightTree tree(1000);
  tree.assign_run(0, std::vector(1000, 2.0F));
  tree.assign(std::vector{700U}, std::vector{9.0F});
  EXPECT_EQ(tree.max(), 9.0F);
  tree.clear_run(700, 1);
  EXPECT_EQ(tree.max(), 2.0F);
}

}  // namespace
}  // namespace reprise::tree
