#include "actor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

namespace apex {
namespace {

constexpr float kDiscount = 0.9F;
constexpr float kScale = 0.1F;

/// The n-step error by its definition: the discounted rewards from step `first` on, plus the
/// discounted value of the state after the last of these steps, minus the value of step `first`.
float error(const std::vector<float>& values, const std::vector<float>& rewards, std::size_t first,
            float next_value) {
  double sum = 0.0;
  double discount = 1.0;
  for (std::size_t i = first; i < rewards.size(); ++i) {
    sum += discount * static_cast<double>(rewards[i] * kScale);
    discount *= static_cast<double>(kDiscount);
  }
  return static_cast<float>(std::abs(sum + discount * static_cast<double>(next_value) -
                                     static_cast<double>(values[first])));
}

TEST(OpenSteps, PrioritiesAreAbsoluteNStepErrorsWithFewerStepsAtTheEndOfAnEpisode) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::size_t n = 1 + random.below(5);
    const std::size_t length = 1 + random.below(20);
    OpenSteps open;
    std::vector<float> values;
    std::vector<float> rewards;
    std::vector<float> priorities;
    std::size_t decided = 0;
    for (std::size_t step = 1; step <= length; ++step) {
      values.push_back(random.uniform(-1.0F, 1.0F));
      rewards.push_back(random.uniform(-10.0F, 10.0F));
      const float next_value = random.uniform(-1.0F, 1.0F);
      open.add(values.back(), kScale * rewards.back());
      const std::size_t completing = step == length ? step - decided : (step >= n ? 1 : 0);
      const std::size_t before = priorities.size();
      open.decide(completing, kDiscount, next_value, priorities);
      ASSERT_EQ(priorities.size(), before + completing);
      for (std::size_t i = before; i < priorities.size(); ++i) {
        EXPECT_NEAR(priorities[i], error(values, rewards, decided, next_value), 1e-5F);
        ++decided;
      }
    }
    EXPECT_EQ(decided, length);
  }
}

TEST(Exploration, FallsFromEpsilonToItsEighthPowerOverTheEnvironmentsAsInApex) {
  const Options options;
  EXPECT_FLOAT_EQ(exploration(options, 0, 360), 0.4F);
  EXPECT_FLOAT_EQ(exploration(options, 359, 360), static_cast<float>(std::pow(0.4, 8.0)));
  for (std::size_t i = 1; i < 360; ++i) {
    EXPECT_LT(exploration(options, i, 360), exploration(options, i - 1, 360));
  }
  EXPECT_FLOAT_EQ(exploration(options, 0, 1), static_cast<float>(std::pow(0.4, 8.0)));
}

TEST(Actor, GivesEachItemThePriorityOfItsNStepErrorAndEachStepItsOwnRow) {
  Options options;
  options.actors = 1;
  options.environments = 4;
  options.hidden = 8;
  options.warmup_steps = 2'000;
  options.alpha = 1.0F;
  Job job(options);
  job.learner.publish();
  std::jthread playing([&job] { Actor(job, 0).run(); });
  reprise::Sampler sampler = job.replay.sampler();
  const reprise::SampleResult batch = sampler.sample(256);
  job.replay.close();
  playing.join();
  ASSERT_TRUE(batch);
  Policy policy(job.learner);
  policy.refresh();
  std::vector<float> now(256 * LunarLander::kActions);
  std::vector<float> next(256 * LunarLander::kActions);
  policy.evaluate(batch->now(job.fields.state), now);
  policy.evaluate(batch->next(job.fields.state), next);
  std::vector<float> priorities(256);
  job.replay.selector().priorities(batch->keys(), priorities);
  for (std::size_t i = 0; i < 256; ++i) {
    const auto action = static_cast<std::size_t>(batch->now(job.fields.action)[i]);
    const float best = std::ranges::max(std::span(next).subspan(i * 4, 4));
    const float target = 0.1F * batch->returns(job.fields.reward)[i] + batch->discounts()[i] * best;
    EXPECT_NEAR(priorities[i], std::abs(target - now[i * 4 + action]), 1e-3F) << i;
  }
}

}  // namespace
}  // namespace apex
