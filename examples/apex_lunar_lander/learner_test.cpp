#include "learner.hpp"

#include "network.hpp"
#include "random.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace apex {
namespace {

constexpr std::int64_t kBatch = 32;

std::int64_t signed_size(std::size_t size) {
  return static_cast<std::int64_t>(size);
}

/// The same learner as a textbook has it: torch's modules, gradients, clipping and optimizer.
class Textbook {
 public:
  Textbook(const NetworkShape& shape, const LearnerOptions& options,
           std::span<const float> parameters)
      : shape_(shape),
        options_(options),
        adam_(online_->parameters(), torch::optim::AdamOptions(options.learning_rate)) {
    load(online_, parameters);
    load(target_, parameters);
  }

  torch::Tensor step(const torch::Tensor& now, const torch::Tensor& actions,
                     const torch::Tensor& returns, const torch::Tensor& discounts,
                     const torch::Tensor& next, const torch::Tensor& weights) {
    const torch::Tensor best = values(online_, next).argmax(1, true);
    const torch::Tensor targets = (options_.reward_scale * returns +
                                   discounts * values(target_, next).gather(1, best).squeeze(1))
                                      .detach();
    const torch::Tensor chosen = values(online_, now).gather(1, actions.unsqueeze(1)).squeeze(1);
    adam_.zero_grad();
    (torch::huber_loss(chosen, targets, at::Reduction::None) * weights).mean().backward();
    torch::nn::utils::clip_grad_norm_(online_->parameters(), options_.gradient_clip);
    adam_.step();
    const torch::NoGradGuard no_graph;
    const auto from = online_->parameters();
    const auto to = target_->parameters();
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i].add_(options_.target_rate * (from[i] - to[i]));
    }
    return (chosen - targets).abs();
  }

  [[nodiscard]] std::vector<float> parameters() const {
    std::vector<float> all;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto* const linear = online_->ptr(2 * i)->as<torch::nn::Linear>();
      for (const torch::Tensor& part : {linear->weight.t().contiguous(), linear->bias}) {
        all.insert(all.end(), part.data_ptr<float>(), part.data_ptr<float>() + part.numel());
      }
    }
    return all;
  }

 private:
  [[nodiscard]] torch::nn::Sequential make() const {
    const auto linear = [](std::size_t inputs, std::size_t outputs) {
      return torch::nn::Linear(signed_size(inputs), signed_size(outputs));
    };
    return torch::nn::Sequential(linear(shape_.observations, shape_.hidden), torch::nn::ReLU(),
                                 linear(shape_.hidden, shape_.hidden), torch::nn::ReLU(),
                                 linear(shape_.hidden, 1 + shape_.actions));
  }

  void load(torch::nn::Sequential& network, std::span<const float> parameters) const {
    const torch::NoGradGuard no_graph;
    const torch::Tensor flat =
        torch::tensor(std::vector<float>(parameters.begin(), parameters.end()));
    for (std::size_t i = 0; i < 3; ++i) {
      const NetworkShape::Layer layer = shape_.layers()[i];
      const std::int64_t inputs = signed_size(layer.inputs);
      const std::int64_t outputs = signed_size(layer.outputs);
      auto* const linear = network->ptr(2 * i)->as<torch::nn::Linear>();
      linear->weight.copy_(
          flat.narrow(0, signed_size(layer.weights), inputs * outputs).view({inputs, outputs}).t());
      linear->bias.copy_(flat.narrow(0, signed_size(layer.biases), outputs));
    }
  }

  torch::Tensor values(torch::nn::Sequential& network, const torch::Tensor& states) const {
    const torch::Tensor head = network->forward(states);
    const torch::Tensor advantages = head.narrow(1, 1, signed_size(shape_.actions));
    return head.narrow(1, 0, 1) + advantages - advantages.mean(1, true);
  }

  NetworkShape shape_;
  LearnerOptions options_;
  torch::nn::Sequential online_ = make();
  torch::nn::Sequential target_ = make();
  torch::optim::Adam adam_;
};

void expect_equal_training(std::uint64_t seed, const LearnerOptions& options) {
  SCOPED_TRACE(seed);
  const NetworkShape shape{.observations = 8, .hidden = 24, .actions = 4};
  Learner learner(shape, options, seed);
  Textbook textbook(shape, options, learner.parameters());
  Random random(seed);
  const auto numbers = [&random](std::int64_t count, float low, float high) {
    std::vector<float> result(static_cast<std::size_t>(count));
    std::generate(result.begin(), result.end(), [&] { return random.uniform(low, high); });
    return result;
  };
  const auto tensor = [](const auto& values, at::IntArrayRef shape_of) {
    return torch::tensor(values).reshape(shape_of);
  };
  for (int update = 0; update < 30; ++update) {
    SCOPED_TRACE(update);
    std::vector<float> now = numbers(kBatch * 8, -1.0F, 1.0F);
    std::vector<float> next = numbers(kBatch * 8, -1.0F, 1.0F);
    std::vector<float> returns = numbers(kBatch, -100.0F, 100.0F);
    std::vector<float> discounts = numbers(kBatch, 0.0F, 1.0F);
    std::vector<float> weights = numbers(kBatch, 0.1F, 1.0F);
    std::vector<std::int32_t> actions(kBatch);
    std::generate(actions.begin(), actions.end(),
                  [&] { return static_cast<std::int32_t>(random.below(4)); });
    const std::vector<std::int64_t> wide_actions(actions.begin(), actions.end());
    const auto errors = learner.step(now, actions, returns, discounts, next, weights);
    const torch::Tensor expected = textbook.step(
        tensor(now, {kBatch, 8}), tensor(wide_actions, {kBatch}), tensor(returns, {kBatch}),
        tensor(discounts, {kBatch}), tensor(next, {kBatch, 8}), tensor(weights, {kBatch}));
    for (std::int64_t i = 0; i < kBatch; ++i) {
      ASSERT_NEAR(errors[static_cast<std::size_t>(i)], expected[i].item<float>(), 1e-4F) << i;
    }
  }
  const std::vector<float> expected = textbook.parameters();
  ASSERT_EQ(learner.parameters().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(learner.parameters()[i], expected[i], 1e-4F) << "parameter " << i;
  }
}

TEST(Learner, TrainsAsTorchsOwnModulesAndOptimizerDo) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    expect_equal_training(seed, {});
  }
}

TEST(Learner, ClipsGradientsAsTorchDoes) {
  expect_equal_training(6, {.gradient_clip = 0.05, .target_rate = 0.1});
}

TEST(Learner, DecaysItsStepSize) {
  // From the first update on at the final rate, so that the textbook may keep one rate throughout.
  LearnerOptions options;
  options.learning_rate = 1.0;
  options.final_learning_rate = 1e-3;
  options.decay_updates = 1;
  const NetworkShape shape{.observations = 8, .hidden = 24, .actions = 4};
  Learner decayed(shape, options, 7);
  Learner constant(shape, {}, 7);
  std::vector<float> states(8, 0.5F);
  std::vector<std::int32_t> action = {1};
  std::vector<float> one = {1.0F};
  for (int update = 0; update < 5; ++update) {
    decayed.step(states, action, one, one, states, one);
    constant.step(states, action, one, one, states, one);
  }
  EXPECT_TRUE(std::equal(decayed.parameters().begin(), decayed.parameters().end(),
                         constant.parameters().begin()));
}

}  // namespace
}  // namespace apex
