#include "learner.hpp"

#include "network.hpp"
#include "random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace apex {
namespace {

constexpr std::size_t kBatch = 32;
constexpr NetworkShape kShape{.observations = 8, .hidden = 64, .actions = 4};

/// A batch of made-up items.
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

torch::Tensor values(Network network, std::vector<float>& states) {
  const torch::NoGradGuard no_graph;
  return network->forward(torch::from_blob(states.data(), {kBatch, 8}));
}

TEST(Network, ValuesAreTheValuePlusCentredAdvantages) {
  Network network(NetworkShape{.observations = 2, .hidden = 1, .actions = 3});
  // First hidden unit: relu(x0 - x1 + 1); second: relu(2 h - 1); head: value h, advantages h, 0, 2.
  const std::vector<float> parameters = {1, -1, 1, 2, -1, 1, 1, 0, 0, 0, 0, 0, 2};
  const float* from = parameters.data();
  const torch::NoGradGuard no_graph;
  for (torch::Tensor& to : network->parameters()) {
    std::copy_n(from, to.numel(), to.data_ptr<float>());
    from += to.numel();
  }
  ASSERT_EQ(from, parameters.data() + parameters.size());
  const torch::Tensor found = network->forward(torch::tensor({{3.0F, 1.0F}, {0.0F, 5.0F}}));
  // x = (3, 1): h = 3, then 5; mean advantage 7/3. x = (0, 5): h = 0, then 0; mean 2/3.
  const std::vector<float> expected = {5 + 5 - 7.0F / 3, 5 - 7.0F / 3, 5 + 2 - 7.0F / 3,
                                       0 - 2.0F / 3,     0 - 2.0F / 3, 2 - 2.0F / 3};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found.data_ptr<float>()[i], expected[i], 1e-6F) << i;
  }
}

TEST(Learner, ErrorsAreThoseOfDoubleQLearning) {
  LearnerOptions options;
  options.target_rate = 0.0;
  Items items(1);
  Learner learner(kShape, options, 1);
  // The target network never moves.
  const torch::Tensor worth = values(learner.network(), items.next).clone();
  for (int update = 0; update < 50; ++update) {
    SCOPED_TRACE(update);
    const torch::Tensor now = values(learner.network(), items.now);
    const torch::Tensor best = values(learner.network(), items.next).argmax(1);
    const auto errors = items.step(learner);
    for (std::size_t i = 0; i < kBatch; ++i) {
      const auto row = static_cast<std::int64_t>(i);
      const float target =
          static_cast<float>(options.reward_scale) * items.returns[i] +
          items.discounts[i] * worth[row][best[row].item<std::int64_t>()].item<float>();
      const float value = now[row][items.actions[i]].item<float>();
      ASSERT_NEAR(errors[i], std::abs(value - target), 1e-3F) << "item " << i;
    }
  }
}

TEST(Learner, TheTargetNetworkFollowsAtItsRate) {
  for (const double rate : {0.0, 0.25, 1.0}) {
    Network followed(kShape);
    Network follower(kShape);
    const torch::Tensor before = follower->parameters()[0].detach().clone();
    approach(follower, followed, rate);
    const torch::Tensor expected = before + rate * (followed->parameters()[0].detach() - before);
    EXPECT_TRUE(torch::allclose(follower->parameters()[0], expected)) << rate;
  }
}

TEST(Learner, LearnsAFixedBatch) {
  Items items(2);
  Learner learner(kShape, {}, 2);
  const auto mean_error = [&] {
    const auto errors = items.step(learner);
    return std::accumulate(errors.begin(), errors.end(), 0.0F) / static_cast<float>(errors.size());
  };
  const float before = mean_error();
  for (int update = 0; update < 1000; ++update) {
    mean_error();
  }
  EXPECT_LT(mean_error(), 0.1F * before);
}

TEST(Learner, ItemsOfWeightZeroTeachNothing) {
  Items items(3);
  std::ranges::fill(items.weights, 0.0F);
  Learner learner(kShape, {}, 3);
  const torch::Tensor before = values(learner.network(), items.now).clone();
  items.step(learner);
  EXPECT_TRUE(torch::equal(values(learner.network(), items.now), before));
}

}  // namespace
}  // namespace apex
