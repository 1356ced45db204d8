#include "lunar_lander.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace apex {
namespace {

using Observation = std::array<float, LunarLander::kObservations>;
using Policy = std::function<std::int32_t(const Observation&)>;

struct Step {
  Observation before = {};
  std::int32_t action = 0;
  LunarLander::Outcome outcome;
  Observation after = {};
};

std::vector<Step> play(std::uint64_t seed, const Policy& policy) {
  LunarLander lander(seed);
  std::vector<Step> steps;
  Observation observation = {};
  lander.reset(observation);
  do {
    Step step;
    step.before = observation;
    step.action = policy(observation);
    step.outcome = lander.step(step.action, observation);
    step.after = observation;
    steps.push_back(step);
  } while (steps.back().outcome.end == reprise::End::Continue);
  return steps;
}

float total(const std::vector<Step>& steps) {
  float sum = 0.0F;
  for (const Step& step : steps) {
    sum += step.outcome.reward;
  }
  return sum;
}

Policy at_random(std::uint64_t seed) {
  return [random = Random(seed)](const Observation& /*observation*/) mutable {
    return static_cast<std::int32_t>(random.below(LunarLander::kActions));
  };
}

/// The controller that Gym publishes as a demonstration: it leans against the drift and hovers
/// lower as the pad comes nearer. If it wants both engines, it fires the one that is needed more.
/// Observation: x, y, their speeds, angle, its speed, each leg on the ground.
std::int32_t demonstrate(const Observation& s) {
  const float wanted_angle = std::fmin(0.4F, std::fmax(-0.4F, 0.5F * s[0] + s[2]));
  const float wanted_height = 0.55F * std::abs(s[0]);
  const bool landed = s[6] != 0.0F || s[7] != 0.0F;
  const float turn = landed ? 0.0F : 0.5F * (wanted_angle - s[4]) - s[5];
  const float climb = landed ? -0.5F * s[3] : 0.5F * (wanted_height - s[1]) - 0.5F * s[3];
  if (climb > std::abs(turn) && climb > 0.05F) {
    return LunarLander::kMainEngine;
  }
  if (turn < -0.05F) {
    return LunarLander::kRightEngine;
  }
  return turn > 0.05F ? LunarLander::kLeftEngine : LunarLander::kNothing;
}

/// Gym's shaping: a penalty for distance, speed and tilt, and 10 for each leg on the ground.
float shaping(const Observation& s) {
  return -100.0F * std::sqrt(s[0] * s[0] + s[1] * s[1]) -
         100.0F * std::sqrt(s[2] * s[2] + s[3] * s[3]) - 100.0F * std::abs(s[4]) +
         10.0F * (s[6] + s[7]);
}

TEST(LunarLander, IsDeterministicPerSeed) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(seed);
    const auto first = play(seed, at_random(seed));
    const auto second = play(seed, at_random(seed));
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      ASSERT_EQ(first[i].after, second[i].after) << "step " << i;
      ASSERT_EQ(first[i].outcome.reward, second[i].outcome.reward) << "step " << i;
    }
  }
}

TEST(LunarLander, RewardIsTheChangeOfShapingLessFuel) {
  constexpr std::array<float, LunarLander::kActions> kFuel = {0.0F, 0.03F, 0.30F, 0.03F};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    for (const Step& step : play(seed, at_random(seed + 100))) {
      if (step.outcome.end == reprise::End::Continue) {
        ASSERT_NEAR(step.outcome.reward,
                    shaping(step.after) - shaping(step.before) -
                        kFuel[static_cast<std::size_t>(step.action)],
                    1e-3F);
      }
    }
  }
}

TEST(LunarLander, LeavingThePictureTerminatesWithAPenaltyOf100) {
  // The lander leans over to a quarter of a radian and burns, so it leaves far to the left and
  // never lands.
  const auto steps = play(1, [](const Observation& s) -> std::int32_t {
    const float turn = 0.25F - s[4] - s[5];
    if (turn > 0.1F) {
      return LunarLander::kLeftEngine;
    }
    return turn < -0.1F ? LunarLander::kRightEngine : LunarLander::kMainEngine;
  });
  EXPECT_GE(std::abs(steps.back().after[0]), 1.0F);
  EXPECT_EQ(steps.back().outcome.end, reprise::End::Terminated);
  EXPECT_EQ(steps.back().outcome.reward, -100.0F);
}

TEST(LunarLander, HoveringIsTruncatedAtTheTimeLimit) {
  int truncated = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const auto steps = play(seed, [](const Observation& s) {
      Observation lowered = s;
      lowered[1] -= 0.8F;  // The controller believes that it is lower, so it hovers 0.8 higher.
      return demonstrate(lowered);
    });
    ASSERT_LE(steps.size(), LunarLander::kTimeLimit);
    EXPECT_EQ(steps.size() == LunarLander::kTimeLimit,
              steps.back().outcome.end == reprise::End::Truncated);
    if (steps.back().outcome.end == reprise::End::Truncated) {
      // A landing or a crash would earn 100 or -100.
      EXPECT_LT(std::abs(steps.back().outcome.reward), 50.0F);
      ++truncated;
    }
  }
  EXPECT_GE(truncated, 5);
}

TEST(LunarLander, TheDemonstrationControllerEarns200OnAverage) {
  float sum = 0.0F;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    sum += total(play(seed, demonstrate));
  }
  RecordProperty("mean_return", std::to_string(sum / 100.0F));
  EXPECT_GT(sum / 100.0F, 200.0F);
}

TEST(LunarLander, ARandomPolicyScoresAsPublished) {
  float sum = 0.0F;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    sum += total(play(seed, at_random(seed + 1000)));
  }
  RecordProperty("mean_return", std::to_string(sum / 300.0F));
  EXPECT_NEAR(sum / 300.0F, -180.0F, 25.0F);
}

}  // namespace
}  // namespace apex
