#include "tree/weighing.hpp"

#include "base/normal.hpp"
#include "base/random.hpp"
#include "testing/fixtures/without_denormals.hpp"
#include "testing/test.hpp"

#include <bit>

namespace reprise::tree {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::min();

std::vector<float> weighed(const std::vector<float>& priorities, float alpha, float epsilon) {
  std::vector<float> weights(priorities.size(), -1.0F);
  weigh(priorities, alpha, epsilon, weights);
  return weights;
}

/// A random float from 0 to the largest.
float random_priority(base::Random& random) {
  return base::normal_or_0(
      std::bit_cast<float>(static_cast<std::uint32_t>(random.next() % 0x7F800000U)));
}

/// The error of `value`, in units in the last place of the float nearest to the exact value.
double ulps(float value, long double exact) {
  const auto nearest = static_cast<float>(exact);
  if (std::isinf(nearest) || std::isinf(value)) {
    return nearest == value ? 0.0 : 1e9;
  }
  const long double unit = static_cast<long double>(std::nextafter(nearest, kInfinity)) -
                           static_cast<long double>(nearest);
  return static_cast<double>(std::abs(static_cast<long double>(value) - exact) / unit);
}

TEST(Weigh, IsWithinTwoUlpsOfThePower) {
  constexpr std::uint64_t kSeed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  base::Random random(kSeed);
  std::vector<float> priorities(100'000);
  for (const float alpha : {0.0F, 0.05F, 0.3F, 0.5F, 0.6F, 0.7F, 0.99F, 1.0F, 1.5F, 4.0F}) {
    const float epsilon = alpha < 0.65F ? 0.0F : 1e-4F;
    SCOPED_TRACE(testing::Message() << "alpha " << alpha << " epsilon " << epsilon);
    std::generate(priorities.begin(), priorities.end(), [&] { return random_priority(random); });
    priorities[0] = kLargest;
    priorities[1] = kSmallest;
    priorities[2] = 1.0F;
    const std::vector<float> weights = weighed(priorities, alpha, epsilon);
    for (std::size_t i = 0; i < priorities.size(); ++i) {
      const auto base = static_cast<long double>(priorities[i]) + static_cast<long double>(epsilon);
      const long double power = std::pow(base, static_cast<long double>(alpha));
      const long double exact = power > 0.0L ? std::max<long double>(power, kSmallest) : 0.0L;
      ASSERT_LE(ulps(weights[i], exact), 2.0)
          << "priority " << priorities[i] << " gave " << weights[i];
    }
  }
}

TEST(Weigh, ZeroToThePowerOfZeroIsOne) {
  EXPECT_EQ(weighed({0.0F, 3.0F}, 0.0F, 0.0F), (std::vector{1.0F, 1.0F}));
}

TEST(Weigh, ZeroStaysZeroForEveryOtherPower) {
  for (const float alpha : {kSmallest, 0.1F, 0.5F, 0.6F, 1.0F, 3.0F}) {
    EXPECT_EQ(weighed({0.0F, -0.0F}, alpha, 0.0F), (std::vector{0.0F, 0.0F})) << alpha;
  }
}

TEST(Weigh, OverflowIsInfinite) {
  EXPECT_EQ(weighed({kLargest, 1e20F, 1e19F}, 2.0F, 0.0F)[0], kInfinity);
  EXPECT_EQ(weighed({kLargest, 1e20F, 1e19F}, 2.0F, 0.0F)[1], kInfinity);
  EXPECT_TRUE(std::isfinite(weighed({kLargest, 1e20F, 1e19F}, 2.0F, 0.0F)[2]));
  EXPECT_EQ(weighed({kLargest}, 1.0F, kLargest)[0], kInfinity);
  EXPECT_EQ(weighed({kLargest}, 1e30F, 0.0F)[0], kInfinity);
  EXPECT_EQ(weighed({kLargest}, 1.0F, 1.0F)[0], kLargest);
}

TEST(Weigh, WhatIsAboveZeroStaysAboveOnEveryThread) {
  for (const bool flushed : {false, true}) {
    const auto weights = test::call_flushed(flushed, [] {
      return weighed({0.0F, kSmallest, 1e-30F, 1e-10F, 1e-4F}, 8.0F, 0.0F);
    });
    EXPECT_EQ(weights[0], 0.0F);
    EXPECT_EQ(std::vector(weights.begin() + 1, weights.begin() + 4), std::vector(3, kSmallest));
    EXPECT_NEAR(weights[4] * 1e32F, 1.0F, 1e-5F);
  }
}

TEST(Weigh, WorksInPlaceAtEveryLength) {
  for (std::size_t n = 0; n <= 40; ++n) {
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i) {
      values[i] = static_cast<float>(i);
    }
    const std::vector<float> apart = weighed(values, 0.6F, 0.5F);
    weigh(values, 0.6F, 0.5F, values);
    EXPECT_EQ(values, apart);
  }
}

TEST(Weigh, TheFastCasesContinueTheGeneralOne) {
  for (const float alpha : {0.5F, 1.0F}) {
    const std::vector<float> priorities{0.1F, 1.0F, 77.0F, 1e-30F, 1e30F};
    const std::vector<float> exact = weighed(priorities, alpha, 1e-4F);
    const std::vector<float> near = weighed(priorities, std::nextafter(alpha, 2.0F), 1e-4F);
    for (std::size_t i = 0; i < priorities.size(); ++i) {
      EXPECT_NEAR(near[i] / exact[i], 1.0F, 2e-5F);
    }
  }
}

TEST(Raise, IsWithinAnUlpOfThePowerAndWithinAFloatsRange) {
  constexpr std::uint64_t kSeed = 12;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  base::Random random(kSeed);
  std::vector<float> weights(20'000);
  for (const double exponent : {0.0, 0.1, 1.0 / 3, 0.5, 1.0, 1.25, 2.0, 8.0, 80.0}) {
    SCOPED_TRACE(testing::Message() << "exponent " << exponent);
    std::generate(weights.begin(), weights.end(), [&] { return random_priority(random); });
    weights[0] = kLargest;
    weights[1] = kSmallest;
    weights[2] = 1.0F;
    const std::vector<float> before = weights;
    raise(weights, exponent);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto base = static_cast<long double>(before[i]);
      const long double exact =
          before[i] == 0.0F
              ? 0.0L
              : std::clamp<long double>(std::pow(base, exponent), kSmallest, kLargest);
      ASSERT_LE(ulps(weights[i], exact), 1.0) << before[i] << " gave " << weights[i];
    }
  }
}

TEST(Raise, PowersOfTwoToWholePowersOfTwoAreExact) {
  for (int power = -120; power <= 120; power += 4) {
    for (const double exponent : {0.25, 0.5, 1.0}) {
      std::vector<float> weights(5, std::ldexp(1.0F, power));
      raise(weights, exponent);
      EXPECT_EQ(weights, std::vector<float>(5, std::exp2(static_cast<float>(power * exponent))));
    }
  }
}

TEST(Raise, ZeroStaysZeroAndNothingElseBecomesZeroOrInfinite) {
  std::vector<float> weights{0.0F, kSmallest, 1e-30F, 1e30F, kLargest};
  raise(weights, 8.0);
  EXPECT_EQ(weights, (std::vector{0.0F, kSmallest, kSmallest, kLargest, kLargest}));
  raise(weights, 0.0);
  EXPECT_EQ(weights, (std::vector{0.0F, 1.0F, 1.0F, 1.0F, 1.0F}));
}

TEST(Importance, IsWithinAMillionthOfTheFormula) {
  constexpr std::uint64_t kSeed = 13;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  base::Random random(kSeed);
  std::vector<double> probabilities(10'000);
  std::vector<float> weights(probabilities.size());
  for (const float beta : {0.0F, 0.1F, 0.4F, 0.5F, 0.73F, 1.0F, 1.3F}) {
    for (const double reference : {0.0, 1e-9, 0.25}) {
      const double items = 1'000'003.0;
      std::generate(probabilities.begin(), probabilities.end(),
                    [&] { return std::exp2(-40.0 * random.uniform()); });
      importance(probabilities, items, beta, reference, weights);
      for (std::size_t i = 0; i < probabilities.size(); ++i) {
        const double base =
            reference > 0.0 ? probabilities[i] / reference : items * probabilities[i];
        const double exact = std::pow(base, -static_cast<double>(beta));
        ASSERT_NEAR(static_cast<double>(weights[i]) / exact, 1.0, 1e-6)
            << "beta " << beta << " reference " << reference << " P " << probabilities[i];
      }
    }
  }
}

TEST(Importance, TheReferenceItselfWeighsOne) {
  for (const float beta : {0.0F, 0.4F, 0.5F, 1.0F}) {
    const std::vector<double> probabilities{1e-6, 3e-7};
    for (const double reference : probabilities) {
      std::vector<float> weights(2);
      importance(probabilities, 10.0, beta, reference, weights);
      EXPECT_EQ(weights[reference == probabilities[0] ? 0 : 1], 1.0F);
    }
  }
}

TEST(Importance, IsAboveZeroAndFiniteWhateverTheProbabilities) {
  const std::vector<double> probabilities{1e-300, 1e-30, 1.0};
  for (const float beta : {0.4F, 0.5F, 1.0F}) {
    for (const double reference : {0.0, 1e-300}) {
      std::vector<float> weights(3);
      importance(probabilities, 1e6, beta, reference, weights);
      for (const float weight : weights) {
        EXPECT_TRUE(std::isnormal(weight) && weight > 0.0F) << weight << ", beta " << beta;
      }
      EXPECT_GE(weights[0], weights[1]);
      EXPECT_GE(weights[1], weights[2]);
    }
  }
}

TEST(Importance, HandlesEveryLength) {
  for (std::size_t n = 0; n <= 40; ++n) {
    const std::vector<double> probabilities(n, 1.0 / 1024);
    std::vector<float> weights(n);
    importance(probabilities, 16.0, 0.25F, 0.0, weights);
    for (const float weight : weights) {
      EXPECT_NEAR(weight, 2.8284271F, 1e-6F);
    }
  }
}

}  // namespace
}  // namespace reprise::tree
