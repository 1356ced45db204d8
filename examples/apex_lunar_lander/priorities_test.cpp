#include "n_step.hpp"
#include "random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace apex {
namespace {

constexpr float kDiscount = 0.9F;
constexpr float kScale = 0.1F;

/// The definition: from step `first` to the end of `rewards`, then the value of what follows.
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

TEST(OpenSteps, PrioritiesAreAbsoluteNStepErrorsWithShorterReturnsAtTheEnd) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::size_t n = 1 + random.below(5);
    const std::size_t length = 1 + random.below(20);
    OpenSteps open(kDiscount, kScale);
    open.begin_episode();
    std::vector<float> values;
    std::vector<float> rewards;
    std::size_t decided = 0;
    for (std::size_t step = 1; step <= length; ++step) {
      values.push_back(random.uniform(-1.0F, 1.0F));
      rewards.push_back(random.uniform(-10.0F, 10.0F));
      const float next_value = random.uniform(-1.0F, 1.0F);
      open.add(values.back(), rewards.back());
      const std::size_t completing = step == length ? step - decided : (step >= n ? 1 : 0);
      const auto priorities = open.decide(completing, next_value);
      ASSERT_EQ(priorities.size(), completing);
      for (const float priority : priorities) {
        EXPECT_NEAR(priority, error(values, rewards, decided, next_value), 1e-5F);
        ++decided;
      }
    }
    EXPECT_EQ(decided, length);
  }
}

TEST(OpenSteps, BeginningAnEpisodeForgetsWhatWasOpen) {
  OpenSteps open(kDiscount, kScale);
  open.add(5.0F, 50.0F);
  open.begin_episode();
  open.add(1.0F, 0.0F);
  EXPECT_NEAR(open.decide(1, 0.0F)[0], 1.0F, 1e-6F);
}

}  // namespace
}  // namespace apex
