// Changes of all weights at once: a decay, or another exponent.
#include "select/tree_selector.hpp"
#include "storage/chunk_store.hpp"
#include "testing/fixtures/rng.hpp"
#include "testing/fixtures/without_denormals.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

namespace reprise::select {
namespace {

using storage::kNotAStep;
using Floats = std::vector<float>;
using Leaves = std::vector<std::uint32_t>;

constexpr SelectorSummary kNoOtherShards{};
constexpr float kLargest = std::numeric_limits<float>::max();
/// The smallest positive weight that a change of all weights gives.
constexpr float kSmallest = std::numeric_limits<float>::min();

WeightRule rule(float alpha, InitialPriority initial = InitialPriority::MaximumInBuffer) {
  return WeightRule(
      Proportional{.alpha = alpha, .epsilon = 0.0F, .initial = initial, .initial_constant = 4.0F});
}

std::unique_ptr<TreeSelector> filled(const WeightRule& rule, const Floats& priorities) {
  auto selector = std::make_unique<TreeSelector>(rule, 1000);
  selector->insert({0, priorities}, kNoOtherShards);
  return selector;
}

/// The weight of each leaf, as reported by a draw at the middle of the leaf's range of prefix sums;
/// 0 for leaves so light that no draw can hit them.
std::vector<double> drawn_weights(const TreeSelector& selector,
                                  const std::vector<double>& expected) {
  const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
  std::vector<double> weights(expected.size());
  double at = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] > sum * 0x1p-20) {
      double target = at + expected[i] / 2;
      std::uint32_t leaf = 0;
      float weight = 0.0F;
      selector.draw({&target, 1}, {&leaf, 1}, {&weight, 1});
      EXPECT_EQ(leaf, i);
      weights[i] = double{weight};
    }
    at += expected[i];
  }
  return weights;
}

void expect_weights(const TreeSelector& selector, const std::vector<double>& expected,
                    double tolerance) {
  const std::vector<double> weights = drawn_weights(selector, expected);
  double sum = 0.0;
  double least = std::numeric_limits<double>::infinity();
  double most = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += expected[i];
    if (expected[i] > 0.0) {
      least = std::min(least, expected[i]);
      most = std::max(most, expected[i]);
    }
    if (weights[i] != 0.0) {
      ASSERT_NEAR(weights[i] / expected[i], 1.0, tolerance) << "leaf " << i;
    }
  }
  const auto near = [tolerance](double value, double exact) {
    EXPECT_LE(std::abs(value - exact), tolerance * exact) << value << " for " << exact;
  };
  const SelectorSummary summary = selector.summary();
  near(summary.total, sum);
  near(summary.max, most);
  if (most > 0.0) {
    near(summary.min_positive, least);
  }
}

constexpr double kExact = 0.0;
constexpr double kTwoUlps = 0x1p-22;

TEST(Decay, RoundsEachProductOnceHoweverOftenItComes) {
  const Floats priorities{1.0F, 3.0F, 0.7F, 123.456F};
  const auto selector = filled(rule(1.0F), priorities);
  std::vector<double> expected(priorities.begin(), priorities.end());
  for (int i = 0; i < 50'000; ++i) {  // The weights fall to 2^-72 of their values.
    selector->decay(0.999F);
    for (double& weight : expected) {
      weight = double{static_cast<float>(weight * double{0.999F})};
    }
    if (i % 1000 == 0) {
      expect_weights(*selector, expected, kExact);
    }
  }
}

TEST(Decay, LetsNothingVanishAndKeepsWhatIsDrawnTrue) {
  const auto selector = filled(rule(1.0F), {1.0F, 0.0F, 3.0F});
  for (int i = 1; i <= 8; ++i) {
    selector->decay(0x1p-30F);
    const double scale = i < 5 ? std::exp2(-30 * i) : 0.0;
    const double total = selector->summary().total;
    ASSERT_GT(total, 0.0);
    EXPECT_GE(selector->summary().min_positive, kSmallest);
    EXPECT_TRUE(selector->all_positive(Leaves{0, 2}));
    EXPECT_FALSE(selector->all_positive(Leaves{1}));
    // However small the weights are, the probabilities must add up to 1.
    const double last = i < 5 ? 3 * scale : total / 2;
    const std::vector<double> weights = drawn_weights(*selector, {total - last, 0.0, last});
    EXPECT_DOUBLE_EQ(weights[0] + weights[2], total);
    if (i < 5) {
      EXPECT_EQ(weights, (std::vector<double>{scale, 0.0, 3 * scale}));
    }
  }
  EXPECT_EQ(selector->summary().max, kSmallest);
}

TEST(Decay, TakesWeightsUpToTheLargestFloat) {
  const auto selector = filled(rule(1.0F), {3e38F, 1.0F});
  selector->decay(0.5F);
  selector->update(Leaves{1}, Floats{3e38F});
  selector->insert({2, Floats{kLargest}}, kNoOtherShards);
  expect_weights(*selector, {1.5e38F, 3e38F, kLargest}, kExact);
}

TEST(Decay, TakesTheMaximumInTheBufferAlongButNotTheHighestSeen) {
  const auto in_buffer = filled(rule(1.0F), {8.0F, 2.0F});
  const auto ever = filled(rule(1.0F, InitialPriority::HighestSeen), {8.0F, 2.0F});
  for (TreeSelector* const selector : {in_buffer.get(), ever.get()}) {
    selector->decay(0.25F);
    EXPECT_EQ(selector->summary().highest_seen, 8.0F);
    selector->insert({2, Floats{kInitialPriority}}, kNoOtherShards);
  }
  expect_weights(*in_buffer, {2, 0.5, 2}, kExact);
  expect_weights(*ever, {2, 0.5, 8}, kExact);
}

TEST(Decay, NeverRaisesTheHighestSeenByRounding) {
  const auto selector = filled(rule(1.0F, InitialPriority::HighestSeen), {0.7F});
  for (int i = 0; i < 2000; ++i) {
    selector->decay(0.97F);
    selector->insert({1, Floats{kInitialPriority}}, kNoOtherShards);
    selector->update(Leaves{0}, Floats{0.7F});
  }
  EXPECT_EQ(selector->summary().highest_seen, 0.7F);
}

TEST(Decay, LeavesWhatIsHiddenAndShownAsItWas) {
  const auto selector = filled(rule(1.0F), {0.3F, 0.7F, 0.9F});
  selector->decay(0.9F);
  const std::vector<double> near{0.27, 0.63, 0.81};
  const std::vector<double> before = drawn_weights(*selector, near);
  for (int i = 0; i < 1000; ++i) {
    const std::vector<double> weights = drawn_weights(*selector, near);
    selector->hide(Leaves{0, 1, 2});
    ASSERT_EQ(selector->summary().total, 0.0);
    selector->show(Leaves{0, 1, 2}, Floats(weights.begin(), weights.end()));
    ASSERT_EQ(drawn_weights(*selector, near), before);
  }
}

TEST(Decay, TakesALargeWeightInTheMiddleOfALongRun) {
  const auto selector = filled(rule(1.0F), {1.0F});
  selector->decay(0.5F);
  Floats priorities(900, 2.0F);
  priorities[800] = 3e38F;
  selector->insert({1, priorities}, kNoOtherShards);
  EXPECT_EQ(selector->summary().min_positive, 0.5F);
  selector->erase(801, 1);
  EXPECT_EQ(selector->summary().total, 0.5 + 899 * 2.0);
}

TEST(Decay, OfAnOldCheckpointComesWithItsMemory) {
  const auto selector = filled(rule(1.0F), {8.0F, 0.0F, 1e-45F});
  selector->set_memory({0.25, 16.0});
  EXPECT_EQ(selector->sum(0, 1), 2.0);
  EXPECT_EQ(selector->sum(1, 1), 0.0);
  EXPECT_EQ(selector->sum(2, 1), double{kSmallest});
  EXPECT_EQ(selector->summary().highest_seen, 16.0F);
  EXPECT_EQ(selector->memory().first, 1.0);
  for (const double wrong : {0.0, -1.0, 2.0, std::nan("")}) {
    selector->set_memory({wrong, 16.0});
    EXPECT_EQ(selector->sum(0, 1), 2.0);
  }
}

TEST(SetAlpha, WeighsAsIfTheNewOneHadBeenThereFromTheStart) {
  const Floats priorities{0.1F, 3.0F, 0.0F, 50.0F, kNotAStep, 1e-5F};
  for (const float alpha : {0.3F, 1.0F, 1.2F, 2.0F}) {
    const auto selector = filled(rule(0.6F), priorities);
    selector->set_alpha(alpha);
    std::vector<double> expected;
    for (const float priority : priorities) {
      expected.push_back(priority > 0.0F ? std::pow(priority, double{alpha}) : 0.0);
    }
    const double ratio = double{alpha} / 0.6;
    expect_weights(*selector, expected, kTwoUlps * (1 + ratio));
    EXPECT_NEAR(selector->summary().highest_seen / expected[3], 1.0, kTwoUlps * (1 + ratio));
    selector->insert({2, Floats{7.0F, kInitialPriority}}, kNoOtherShards);
    expected[2] = std::pow(7.0, double{alpha});
    expected[3] = std::max(expected[3], expected[2]);
    expect_weights(*selector, expected, kTwoUlps * (1 + ratio));
  }
}

TEST(SetAlpha, MovesTheWeightOfAConstant) {
  TreeSelector selector(rule(0.5F, InitialPriority::Constant), 8);
  selector.set_alpha(2.0F);
  selector.insert({0, Floats{kInitialPriority, 3.0F}}, kNoOtherShards);
  expect_weights(selector, {16, 9}, kExact);
}

TEST(SetAlpha, StaysWithinAFloatsRange) {
  const auto selector = filled(rule(1.0F), {1e30F, 1e-30F, 0.0F});
  selector->set_alpha(8.0F);
  EXPECT_EQ(selector->summary().max, kLargest);
  EXPECT_EQ(selector->summary().min_positive, kSmallest);
  EXPECT_EQ(selector->summary().highest_seen, kLargest);
  EXPECT_FALSE(selector->all_positive(Leaves{2}));
  // This value was accepted when the exponent was smaller.
  selector->insert({3, Floats{1e30F}}, kNoOtherShards);
  EXPECT_TRUE(std::isfinite(selector->summary().total));
  EXPECT_EQ(selector->summary().max, kLargest);
}

TEST(ChangesOfAllWeights, LoseNothingOnAThreadThatFlushesDenormalsToZero) {
  REPRISE_SKIP_WITHOUT_FLUSHING();
  const auto decayed = filled(rule(1.0F), {1.0F, 0.0F, 3.0F});
  const auto raised = filled(rule(1.0F), {1e-10F, 0.0F, 1.0F});
  {
    const test::WithoutDenormals here;
    for (int i = 0; i < 8; ++i) {
      decayed->decay(0x1p-30F);
    }
    raised->set_alpha(8.0F);
  }
  for (TreeSelector* const selector : {decayed.get(), raised.get()}) {
    EXPECT_TRUE(selector->all_positive(Leaves{0, 2}));
    EXPECT_EQ(selector->sum(0, 2), double{kSmallest});
    EXPECT_EQ(selector->summary().min_positive, kSmallest);
  }
}

/// The run has more leaves than are inserted at a time.
TEST(TreeSelector, TheMaximumRunsAlongAcrossLongRuns) {
  Floats priorities(1500, kInitialPriority);
  std::vector<double> expected(1500, 1.0);
  for (const auto& [at, priority] :
       {std::pair(300, 2.0F), {511, 3.0F}, {512, 4.0F}, {1023, 5.0F}}) {
    priorities[static_cast<std::size_t>(at)] = priority;
    std::fill(expected.begin() + at, expected.end(), double{priority});
  }
  TreeSelector selector(rule(1.0F), 1500);
  selector.insert({0, priorities}, kNoOtherShards);
  for (std::uint32_t leaf = 0; leaf < 1500; ++leaf) {
    ASSERT_EQ(selector.sum(leaf, 1), expected[leaf]) << "leaf " << leaf;
  }
}

/// Makes random calls, and compares the selector with plain arithmetic.
class RandomCalls {
 public:
  explicit RandomCalls(std::uint64_t seed) : rng_(seed) { insert(0, kLeaves); }

  void step() {
    const std::size_t kind = rng_.below(10);
    const std::uint32_t first = static_cast<std::uint32_t>(rng_.below(kLeaves));
    const std::size_t count = rng_.between(1, std::min<std::size_t>(kLeaves - first, 20));
    if (kind < 3) {
      insert(first, count);
    } else if (kind < 5) {
      update(count);
    } else if (kind == 5) {
      selector_.erase(first, count);
      std::fill_n(weights_.begin() + first, count, 0.0);
    } else if (kind < 9) {
      decay();
    } else {
      constexpr float kAlphas[] = {0.5F, 0.8F, 1.0F, 1.5F};
      set_alpha(kAlphas[rng_.below(4)]);
    }
  }

  void check() const { expect_weights(selector_, weights_, kTolerance); }

 private:
  static constexpr std::size_t kLeaves = 70;
  /// Powers magnify the rounding errors of earlier changes.
  static constexpr double kTolerance = 2e-5;

  [[nodiscard]] double min_weight() const {
    double least = std::numeric_limits<double>::infinity();
    for (const double weight : weights_) {
      least = weight > 0.0 ? std::min(least, weight) : least;
    }
    return least;
  }
  float priority() { return static_cast<float>(0.1 + 3.0 * rng_.unit()); }
  [[nodiscard]] double weight(float priority) const {
    return std::pow(double{priority}, double{alpha_});
  }

  void insert(std::uint32_t first, std::size_t count) {
    Floats raw(count);
    double highest = *std::max_element(weights_.begin(), weights_.end());
    for (std::size_t i = 0; i < count; ++i) {
      double& weight_now = weights_[first + i];
      const std::size_t kind = rng_.below(6);
      if (kind == 0) {
        raw[i] = kNotAStep;
        weight_now = 0.0;
      } else if (kind == 1) {
        raw[i] = kInitialPriority;
        weight_now = highest > 0.0 ? highest : 1.0;
      } else {
        raw[i] = priority();
        weight_now = weight(raw[i]);
      }
      highest = std::max(highest, weight_now);
    }
    selector_.insert({first, raw}, kNoOtherShards);
  }

  void update(std::size_t count) {
    Leaves leaves;
    Floats weights;
    for (std::size_t i = 0; i < count; ++i) {
      const float to = priority();
      leaves.push_back(static_cast<std::uint32_t>(rng_.below(kLeaves)));
      weights_[leaves.back()] = weight(to);
      weights.push_back(static_cast<float>(weight(to)));
    }
    selector_.update(leaves, weights);
  }

  void decay() {
    const double random =
        rng_.chance(0.1) ? std::exp2(-50.0 * rng_.unit()) : 0.5 + 0.5 * rng_.unit();
    const auto factor = static_cast<float>(random);
    if (min_weight() < 0x1p-70) {
      return;  // A float might underflow.
    }
    selector_.decay(factor);
    for (double& weight : weights_) {
      weight *= double{factor};
    }
  }

  void set_alpha(float alpha) {
    if (std::pow(min_weight(), double{alpha} / double{alpha_}) < 0x1p-110) {
      return;  // A float might underflow.
    }
    selector_.set_alpha(alpha);
    for (double& weight : weights_) {
      weight = weight == 0.0 ? 0.0 : std::pow(weight, double{alpha} / double{alpha_});
    }
    alpha_ = alpha;
  }

  test::Rng rng_;
  float alpha_ = 1.0F;
  TreeSelector selector_{rule(1.0F), kLeaves};
  std::vector<double> weights_ = std::vector<double>(kLeaves);
};

TEST(PriorityLife, IsPlainArithmeticWhateverTheOrderOfCalls) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomCalls life(seed);
    for (int i = 0; i < 100; ++i) {
      life.step();
      life.check();
      if (testing::Test::HasFailure()) {
        FAIL() << "step " << i;
      }
    }
  }
}

}  // namespace
}  // namespace reprise::select
