// Statistics of trees as large as those of a large buffer, on every instruction set.

#include "simd_targets.hpp"
#include "testing/program/scale.hpp"
#include "testing/statistics/chi_square.hpp"
#include "tree/weight_tree.hpp"
#include "weight_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#if defined(__linux__)
#include <unistd.h>
#endif

namespace reprise::tree {
namespace {

constexpr std::size_t kMillion = std::size_t{1} << 20U;
constexpr std::size_t kBatch = 512;

/// Returns `full` at a test scale of 5 and above, and a fifth of it at 1.
std::size_t scaled_up_to(std::size_t full) {
  return std::min(full, test::scaled(full / 5, full / 100));
}

/// A tree of whole weights, a third of them 0, after a million updates.
struct UpdatedTree {
  explicit UpdatedTree(std::size_t leaves) : random(leaves), tree(leaves), weights(leaves) {
    const auto weight = [&] { return whole_weight(random, 1000); };
    std::generate(weights.begin(), weights.end(), weight);
    tree.assign_run(0, weights);
    std::array<std::uint32_t, kBatch> places{};
    std::array<float, kBatch> values{};
    for (std::size_t updates = 0; updates < 1'000'000; updates += kBatch) {
      for (std::size_t i = 0; i < kBatch; ++i) {
        places[i] = static_cast<std::uint32_t>(random.next() % leaves);
        values[i] = weights[places[i]] = weight();
      }
      tree.assign(places, values);
    }
  }

  base::Random random;
  WeightTree tree;
  std::vector<float> weights;
};

class TreeOf : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Leaves, TreeOf, testing::Values(kMillion, 8 * kMillion),
                         [](const auto& leaves) { return std::to_string(leaves.param); });

TEST_P(TreeOf, GivesEachLeafExactlyItsIntegersAfterAMillionUpdates) {
  for_each_target([&] {
    const UpdatedTree updated(GetParam());
    // At a large scale, compare every leaf; else runs of leaves all over the tree and at both ends.
    const std::size_t stride = test::test_scale() >= 5.0 ? 1 : 8;
    std::vector<double> targets;
    std::vector<std::uint32_t> expected;
    const auto compare = [&] {
      ASSERT_EQ(find(updated.tree, targets).leaves, expected);
      targets.clear();
      expected.clear();
    };
    double end = 0.0;
    std::uint32_t last = 0;
    for (std::uint32_t leaf = 0; leaf < updated.weights.size(); ++leaf) {
      if (updated.weights[leaf] <= 0.0F) {
        continue;
      }
      const double begin = end;
      end += static_cast<double>(updated.weights[leaf]);
      last = leaf;
      if (begin > 0.0 && leaf / kBatch % stride != 0) {
        continue;
      }
      targets.insert(targets.end(), {begin, std::nextafter(end, 0.0)});
      expected.insert(expected.end(), {leaf, leaf});
      if (targets.size() >= kMillion) {
        ASSERT_NO_FATAL_FAILURE(compare());
      }
    }
    ASSERT_EQ(updated.tree.total(), end);
    targets.push_back(std::nextafter(end, 0.0));
    expected.push_back(last);
    ASSERT_NO_FATAL_FAILURE(compare());
  });
}

TEST_P(TreeOf, PassesChiSquareAfterAMillionUpdates) {
  double worst = 0.0;
  for_each_target([&] {
    UpdatedTree updated(GetParam());
    std::vector<double> probabilities;
    for (const float weight : updated.weights) {
      probabilities.push_back(static_cast<double>(weight) / updated.tree.total());
    }
    std::vector<std::uint64_t> counts(updated.weights.size());
    Found found{std::vector<std::uint32_t>(kBatch), std::vector<float>(kBatch)};
    std::vector<double> targets(kBatch);
    const std::size_t draws = scaled_up_to(10'000'000);
    for (std::size_t drawn = 0; drawn < draws; drawn += kBatch) {
      std::generate(targets.begin(), targets.end(),
                    [&] { return updated.random.uniform() * updated.tree.total(); });
      updated.tree.find(targets, found.leaves, found.weights);
      for (const std::uint32_t leaf : found.leaves) {
        ++counts[leaf];
      }
    }
    const double z = test::chi_square_z(counts, probabilities);
    EXPECT_LT(std::abs(z), test::kMaxZ) << "seed " << GetParam();
    worst = std::abs(z) > std::abs(worst) ? z : worst;
  });
  RecordProperty("z", std::to_string(worst));
}

TEST(TreeDrift, StaysBelowOneInATrillionAfterTenMillionUpdates) {
  double worst = 0.0;
  for_each_target([&] {
    constexpr std::uint64_t kSeed = 23;
    SCOPED_TRACE(testing::Message() << "seed " << kSeed);
    base::Random random(kSeed);
    WeightTree tree(kMillion);
    std::array<std::uint32_t, kBatch> places{};
    std::array<float, kBatch> values{};
    const std::size_t updates = scaled_up_to(10'000'000);
    for (std::size_t done = 0; done < updates; done += kBatch) {
      for (std::size_t i = 0; i < kBatch; ++i) {
        places[i] = static_cast<std::uint32_t>(random.next() % kMillion);
        // The values cover nine decades, so sums that were patched would keep the rounding errors
        // of large ones.
        values[i] = static_cast<float>(std::exp2(30.0 * random.uniform() - 10.0));
      }
      tree.assign(places, values);
    }
    long double exact = 0.0L;
    for (std::uint32_t leaf = 0; leaf < kMillion; ++leaf) {
      exact += static_cast<long double>(tree.weight(leaf));
    }
    const auto drift =
        static_cast<double>(std::abs(static_cast<long double>(tree.total()) / exact - 1.0L));
    EXPECT_LT(drift, 1e-12);
    worst = std::max(worst, drift);
    expect_as_if_fresh(tree, random);
  });
  RecordProperty("drift", testing::PrintToString(worst));
}

TEST(TreeSpikes, AmongOnesHideNoLeafWhileTheyLastAndAreForgottenAfterwards) {
  for_each_target([] {
    WeightTree tree(kMillion);
    WeightModel model(kMillion);
    std::vector<std::uint32_t> spikes;
    for (std::uint32_t i = 0; i < 20; ++i) {
      spikes.push_back(i * 52'001);
    }
    const auto expect_every_leaf = [&] {
      // Weights are whole and their sum is far below 2^53, so every boundary is exact.
      ASSERT_EQ(tree.total(), model.total());
      std::vector<double> targets;
      double end = 0.0;
      for (const float weight : model.weights()) {
        targets.push_back(end);
        end += static_cast<double>(weight);
      }
      const Found found = find(tree, targets);
      for (std::uint32_t leaf = 0; leaf < kMillion; ++leaf) {
        ASSERT_EQ(found.leaves[leaf], leaf);
      }
    };
    const auto set_spikes = [&](float weight) {
      tree.assign(spikes, std::vector(spikes.size(), weight));
      for (const std::uint32_t leaf : spikes) {
        model.weights()[leaf] = weight;
      }
    };
    model.weights().assign(kMillion, 1.0F);
    tree.assign_run(0, model.weights());
    set_spikes(1e12F);
    ASSERT_NO_FATAL_FAILURE(expect_every_leaf());
    model.weights()[777'777] = 5.0F;
    tree.assign(std::vector{777'777U}, std::vector{5.0F});
    ASSERT_NO_FATAL_FAILURE(expect_every_leaf());
    set_spikes(1.0F);
    ASSERT_NO_FATAL_FAILURE(expect_every_leaf());
  });
}

#if defined(__linux__)
std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0;
  std::size_t resident = 0;
  file >> all >> resident;
  EXPECT_TRUE(file);
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(TreeSpikes, CostNoRebuild) {
  // A few leaves of a tree of 1.4 GiB are in use. Summing all leaves again would touch 0.4 GiB of
  // nodes for the first time; sanitizers and the allocator may take a few MiB.
  constexpr std::size_t kLeaves = std::size_t{1} << 28U;
  constexpr std::size_t kMaxGrowthBytes = std::size_t{64} << 20U;
  WeightTree tree(kLeaves);
  std::vector<std::uint32_t> leaves;
  for (std::uint32_t i = 0; i < 20; ++i) {
    leaves.push_back(i * (kLeaves / 20));
  }
  const std::vector<float> ones(leaves.size(), 1.0F);
  const std::vector<float> spikes(leaves.size(), 1e12F);
  tree.assign(leaves, ones);
  const std::size_t before = resident_bytes();
  for (int i = 0; i < 1000; ++i) {
    tree.assign(leaves, spikes);
    tree.assign(leaves, ones);
    ASSERT_LT(resident_bytes(), before + kMaxGrowthBytes);
  }
  EXPECT_EQ(tree.total(), 20.0);
}
#endif

TEST(TreeEnds, AreReachedAtZeroAndJustBelowTheTotalWhateverZerosLieBeyond) {
  for_each_target([] {
    for (const std::size_t leaves : {kMillion, 8 * kMillion}) {
      SCOPED_TRACE(testing::Message() << "leaves and seed " << leaves);
      base::Random random(leaves);
      WeightTree tree(leaves);
      for (int i = 0; i < 200; ++i) {
        // The first and last positive leaf may be anywhere and of any weight, with some leaves
        // between.
        std::vector<std::uint32_t> places;
        std::vector<float> weights;
        for (std::size_t k = 2 + random.next() % 5; k > 0; --k) {
          places.push_back(static_cast<std::uint32_t>(random.next() % leaves));
          weights.push_back(static_cast<float>(std::exp2(40.0 * random.uniform() - 20.0)));
        }
        tree.assign(places, weights);
        const auto [first, last] = std::minmax_element(places.begin(), places.end());
        const Found found = find(tree, {0.0, std::nextafter(tree.total(), 0.0)});
        ASSERT_EQ(found.leaves, (std::vector{*first, *last}));
        tree.assign(places, std::vector(places.size(), 0.0F));
        ASSERT_EQ(tree.total(), 0.0);
      }
    }
  });
}

}  // namespace
}  // namespace reprise::tree
