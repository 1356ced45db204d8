#include "learner.hpp"

#include "lunar_lander.hpp"
#include "network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace apex {
namespace {

constexpr std::size_t kBatch = 32;
constexpr std::size_t kActions = LunarLander::kActions;

/// A batch of random items. Every third item ends its episode.
struct Items {
  explicit Items(std::uint64_t seed) {
    Random random(seed);
    const auto fill = [&random](std::vector<float>& to, std::size_t size, float low, float high) {
      to.resize(size);
      std::generate(to.begin(), to.end(), [&] { return random.uniform(low, high); });
    };
    fill(now, kBatch * 8, -1.0F, 1.0F);
    fill(next, kBatch * 8, -1.0F, 1.0F);
    fill(returns, kBatch, -100.0F, 100.0F);
    fill(discounts, kBatch, 0.9F, 1.0F);
    fill(weights, kBatch, 0.1F, 1.0F);
    actions.resize(kBatch);
    std::generate(actions.begin(), actions.end(),
                  [&] { return static_cast<std::int32_t>(random.below(4)); });
    for (std::size_t i = 0; i < kBatch; i += 3) {
      discounts[i] = 0.0F;
    }
  }

  std::span<const float> step(Learner& learner) {
    return learner.step(now, actions, returns, discounts, next, weights);
  }

  std::vector<float> now, next, returns, discounts, weights;
  std::vector<std::int32_t> actions;
};

/// Publishes the network, and returns its action values [kBatch, kActions] of these states.
std::vector<float> values(Learner& learner, std::vector<float>& states) {
  learner.publish();
  Policy policy(learner);
  policy.refresh();
  std::vector<float> result(kBatch * kActions);
  policy.evaluate(states, result);
  return result;
}

Options with_seed(std::uint64_t seed) {
  Options options;
  options.seed = seed;
  return options;
}

TEST(Network, ValuesAreTheValuePlusCentredAdvantages) {
  Network network(2, 1, 3);
  // First hidden unit: relu(x0 - x1 + 1); second: relu(2 h - 1); head: value h, advantages h, 0, 2.
  const std::vector<float> parameters = {1, -1, 1, 2, -1, 1, 1, 0, 0, 0, 0, 0, 2};
  const float* from = parameters.data();
  const torch::NoGradGuard no_graph;
  for (torch::Tensor& to : network->parameters()) {
    std::copy_n(from, to.numel(), to.data_ptr<float>());
    from += to.numel();
  }
  ASSERT_EQ(from, parameters.data() + parameters.size());
  const torch::Tensor result = network->forward(torch::tensor({{3.0F, 1.0F}, {0.0F, 5.0F}}));
  // x = (3, 1): h = 3, then 5; mean advantage 7/3. x = (0, 5): h = 0, then 0; mean 2/3.
  const std::vector<float> expected = {5 + 5 - 7.0F / 3, 5 - 7.0F / 3, 5 + 2 - 7.0F / 3,
                                       0 - 2.0F / 3,     0 - 2.0F / 3, 2 - 2.0F / 3};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(result.data_ptr<float>()[i], expected[i], 1e-6F) << i;
  }
}

/// Checks the errors of 50 updates against double Q-learning. The target network never moves if
/// `target_rate` is 0, and equals the online network after each update if it is 1.
void check_errors(double target_rate) {
  Options options = with_seed(1);
  options.target_rate = target_rate;
  Items items(1);
  Learner learner(options);
  const std::vector<float> first = values(learner, items.next);
  for (int update = 0; update < 50; ++update) {
    SCOPED_TRACE(update);
    const std::vector<float> now = values(learner, items.now);
    const std::vector<float> next = values(learner, items.next);
    // The online network chooses the best action; the target network values it.
    const std::vector<float>& target_values = target_rate == 0.0 ? first : next;
    const auto errors = items.step(learner);
    for (std::size_t i = 0; i < kBatch; ++i) {
      const auto row = std::span(next).subspan(i * kActions, kActions);
      const auto best = static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
      const float target = static_cast<float>(options.reward_scale) * items.returns[i] +
                           items.discounts[i] * target_values[i * kActions + best];
      const float value = now[i * kActions + static_cast<std::size_t>(items.actions[i])];
      ASSERT_NEAR(errors[i], std::abs(value - target), 1e-3F) << "item " << i;
    }
  }
}

TEST(Learner, ErrorsAreThoseOfDoubleQLearning) {
  check_errors(0.0);
}

TEST(Learner, TheTargetNetworkFollowsEachUpdate) {
  check_errors(1.0);
}

TEST(Learner, ItemsOfWeightZeroChangeNoParameter) {
  Items items(3);
  std::ranges::fill(items.weights, 0.0F);
  Learner learner(with_seed(3));
  const std::vector<float> before = values(learner, items.now);
  items.step(learner);
  EXPECT_EQ(values(learner, items.now), before);
}

TEST(Learner, ALoadedLearnerContinuesLikeTheOneThatWasSaved) {
  Learner first(with_seed(1));
  for (std::uint64_t i = 0; i < 20; ++i) {
    Items(i).step(first);
  }
  Learner second(with_seed(2));
  const std::string saved = first.save();
  second.load(std::as_bytes(std::span(saved)));
  Items seen(100);
  for (std::uint64_t i = 20; i < 40; ++i) {
    Items(i).step(first);
    Items(i).step(second);
    ASSERT_EQ(values(first, seen.now), values(second, seen.now)) << "update " << i;
  }
}

TEST(Learner, KeepsItsOwnLearningRateAfterALoad) {
  Items items(5);
  Learner first(with_seed(1));
  items.step(first);
  Options still = with_seed(2);
  still.learning_rate = 0.0;
  Learner second(still);
  const std::string saved = first.save();
  second.load(std::as_bytes(std::span(saved)));
  const std::vector<float> before = values(second, items.now);
  items.step(second);
  EXPECT_EQ(values(second, items.now), before);
}

TEST(Learner, RefusesANetworkOfAnotherWidth) {
  Options narrow = with_seed(1);
  narrow.hidden = 1;  // Tensors of width 1 would be broadcast to other widths without an error.
  const std::string saved = Learner(narrow).save();
  Learner learner(with_seed(1));
  try {
    learner.load(std::as_bytes(std::span(saved)));
    FAIL() << "it was loaded";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "--hidden is 64, but the checkpoint has a network of 1; allowed: the same");
  }
}

TEST(Policy, TakesACopyOncePerPublication) {
  Items items(4);
  Learner learner(with_seed(4));
  Policy policy(learner);
  const auto policy_values = [&] {
    std::vector<float> now(kBatch * kActions);
    policy.evaluate(items.now, now);
    return now;
  };
  EXPECT_FALSE(policy.refresh());
  for (int publication = 0; publication < 2; ++publication) {
    const std::vector<float> before = policy_values();
    items.step(learner);
    EXPECT_EQ(policy_values(), before);
    learner.publish();
    EXPECT_TRUE(policy.refresh());
    EXPECT_NE(policy_values(), before);
    EXPECT_EQ(policy_values(), values(learner, items.now));
    EXPECT_TRUE(policy.refresh());  // `values` has published the network again.
    EXPECT_FALSE(policy.refresh());
  }
}

}  // namespace
}  // namespace apex
