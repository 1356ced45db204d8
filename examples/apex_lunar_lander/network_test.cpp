#include "network.hpp"

#include "learner.hpp"
#include "random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace apex {
namespace {

constexpr std::size_t kBatch = 32;

/// A batch of made-up items, and what an actor's network with the same parameters says of it.
struct World {
  explicit World(std::uint64_t seed, const NetworkShape& layout) : shape(layout), network(layout) {
    Random random(seed);
    const auto fill = [&random](std::vector<float>& to, std::size_t size, float low, float high) {
      to.resize(size);
      std::generate(to.begin(), to.end(), [&] { return random.uniform(low, high); });
    };
    fill(now, kBatch * shape.observations, -1.0F, 1.0F);
    fill(next, kBatch * shape.observations, -1.0F, 1.0F);
    fill(returns, kBatch, -100.0F, 100.0F);
    fill(discounts, kBatch, 0.9F, 1.0F);
    fill(weights, kBatch, 0.1F, 1.0F);
    actions.resize(kBatch);
    std::generate(actions.begin(), actions.end(),
                  [&] { return static_cast<std::int32_t>(random.below(shape.actions)); });
    for (std::size_t i = 0; i < kBatch; i += 3) {
      discounts[i] = 0.0F;
    }
  }

  std::span<const float> step(Learner& learner) {
    return learner.step(now, actions, returns, discounts, next, weights);
  }

  std::vector<float> values(std::span<const float> parameters, std::span<const float> states) {
    std::copy(parameters.begin(), parameters.end(), network.parameters().begin());
    std::vector<float> result(kBatch * shape.actions);
    network.evaluate(states, result);
    return result;
  }

  NetworkShape shape;
  ActorNetwork network;
  std::vector<float> now, next, returns, discounts, weights;
  std::vector<std::int32_t> actions;
};

TEST(Network, ParametersAreLaidOutWithoutGaps) {
  const NetworkShape shape{.observations = 8, .hidden = 64, .actions = 4};
  EXPECT_EQ(shape.parameters(), 8U * 64 + 64 + 64 * 64 + 64 + 64 * 5 + 5);
  std::size_t offset = 0;
  for (const auto& layer : shape.layers()) {
    EXPECT_EQ(layer.weights, offset);
    EXPECT_EQ(layer.biases, offset + layer.inputs * layer.outputs);
    offset = layer.biases + layer.outputs;
  }
  EXPECT_EQ(offset, shape.parameters());
}

TEST(Network, ActorAndLearnerAgreeOnValuesForEveryWidth) {
  for (const std::size_t hidden : {1U, 3U, 15U, 16U, 17U, 40U, 64U}) {
    SCOPED_TRACE(hidden);
    const NetworkShape shape{.observations = 8, .hidden = hidden, .actions = 4};
    World world(hidden, shape);
    Learner learner(shape, {}, hidden);
    // With nothing to aim at but 0, the error is the value of the action itself.
    std::fill(world.returns.begin(), world.returns.end(), 0.0F);
    std::fill(world.discounts.begin(), world.discounts.end(), 0.0F);
    const std::vector<float> values = world.values(learner.parameters(), world.now);
    const auto errors = world.step(learner);
    for (std::size_t i = 0; i < kBatch; ++i) {
      const auto action = static_cast<std::size_t>(world.actions[i]);
      EXPECT_NEAR(errors[i], std::abs(values[i * shape.actions + action]), 1e-5F);
    }
  }
}

TEST(Network, ValuesAreTheValuePlusCentredAdvantages) {
  const NetworkShape shape{.observations = 2, .hidden = 1, .actions = 3};
  ActorNetwork network(shape);
  // First hidden unit: relu(x0 - x1 + 1); second: relu(2 h - 1); head: value h, advantages h, 0, 2.
  const std::vector<float> parameters = {1, -1, 1, 2, -1, 1, 1, 0, 0, 0, 0, 0, 2};
  ASSERT_EQ(parameters.size(), shape.parameters());
  std::copy(parameters.begin(), parameters.end(), network.parameters().begin());
  const std::vector<float> observations = {3, 1, 0, 5};
  std::vector<float> values(6);
  network.evaluate(observations, values);
  // x = (3, 1): h = 3, then 5; mean advantage 7/3. x = (0, 5): h = 0, then 0; mean 2/3.
  const std::vector<float> expected = {5 + 5 - 7.0F / 3, 5 - 7.0F / 3, 5 + 2 - 7.0F / 3,
                                       0 - 2.0F / 3,     0 - 2.0F / 3, 2 - 2.0F / 3};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], 1e-6F) << i;
  }
}

TEST(Learner, ErrorsAreThoseOfDoubleQLearning) {
  const NetworkShape shape{.observations = 8, .hidden = 64, .actions = 4};
  LearnerOptions options;
  options.target_rate = 0.0;
  World world(1, shape);
  Learner learner(shape, options, 1);
  const std::vector<float> first(learner.parameters().begin(), learner.parameters().end());
  for (int update = 0; update < 50; ++update) {
    SCOPED_TRACE(update);
    const std::vector<float> online(learner.parameters().begin(), learner.parameters().end());
    const auto now = world.values(online, world.now);
    const auto choice = world.values(online, world.next);
    const auto worth = world.values(first, world.next);  // The target network never moved.
    const auto errors = world.step(learner);
    for (std::size_t i = 0; i < kBatch; ++i) {
      const std::size_t at = i * shape.actions;
      const std::size_t best = best_action(std::span(choice).subspan(at, shape.actions));
      const float target =
          options.reward_scale * world.returns[i] + world.discounts[i] * worth[at + best];
      const float value = now[at + static_cast<std::size_t>(world.actions[i])];
      ASSERT_NEAR(errors[i], std::abs(value - target), 1e-3F) << "item " << i;
    }
  }
}

TEST(Learner, LearnsAFixedBatch) {
  const NetworkShape shape{.observations = 8, .hidden = 64, .actions = 4};
  World world(2, shape);
  Learner learner(shape, {}, 2);
  const auto mean_error = [&] {
    const auto errors = world.step(learner);
    float sum = 0.0F;
    for (const float error : errors) {
      sum += error;
    }
    return sum / static_cast<float>(errors.size());
  };
  const float before = mean_error();
  for (int update = 0; update < 1000; ++update) {
    mean_error();
  }
  EXPECT_LT(mean_error(), 0.1F * before);
}

TEST(Learner, ItemsOfWeightZeroTeachNothing) {
  const NetworkShape shape{.observations = 8, .hidden = 16, .actions = 4};
  World world(3, shape);
  std::fill(world.weights.begin(), world.weights.end(), 0.0F);
  Learner learner(shape, {}, 3);
  const std::vector<float> before(learner.parameters().begin(), learner.parameters().end());
  world.step(learner);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), learner.parameters().begin()));
}

}  // namespace
}  // namespace apex
