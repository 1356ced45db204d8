#include "select/weight_rule.hpp"

#include <reprise/selector.hpp>

#include "base/text.hpp"
#include "testing/test.hpp"

namespace reprise::select {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> weigh(const WeightRule& rule, std::vector<float> priorities) {
  rule.weigh(priorities, priorities);
  return priorities;
}

void expect_refused(const Proportional& options, const char* option, float value) {
  test::expect_refusal([&] { (void)options.make_selector_rule(); },
                       {base::text("Proportional::", option, " is ", value), "allowed: "});
}

TEST(WeightRule, RefusesBadOptionsByNameAndValue) {
  for (const float alpha : {-0.1F, 8.5F, kInf, kNan}) {
    expect_refused({.alpha = alpha}, "alpha", alpha);
  }
  for (const float epsilon : {-1e-3F, kInf, kNan}) {
    expect_refused({.epsilon = epsilon}, "epsilon", epsilon);
  }
  for (const float constant : {-1.0F, kInf, kNan}) {
    expect_refused({.initial_constant = constant}, "initial_constant", constant);
  }
}

TEST(WeightRule, RefusesAnInitialConstantWhoseWeightIsNotFinite) {
  const Proportional options{
      .alpha = 2.0F, .initial = InitialPriority::Constant, .initial_constant = 1e20F};
  expect_refused(options, "initial_constant", 1e20F);
  EXPECT_NO_THROW(WeightRule(Proportional{.alpha = 2.0F, .initial_constant = 1e20F}))
      << "a constant that is not used";
}

TEST(WeightRule, RefusesAnAlphaWithWhichItsConstantsWeighInfinitely) {
  for (const Proportional& options :
       {Proportional{.initial = InitialPriority::Constant, .initial_constant = 1e20F},
        Proportional{.epsilon = 1e20F}}) {
    const WeightRule rule(options);
    EXPECT_NO_THROW(rule.check_alpha(1.5F));
    EXPECT_THROW(rule.check_alpha(2.0F), std::invalid_argument);
  }
}

TEST(WeightRule, TakesTheWholeRangeItNames) {
  EXPECT_NO_THROW(
      WeightRule(Proportional{.alpha = 0.0F, .epsilon = 0.0F, .initial_constant = 0.0F}));
  EXPECT_NO_THROW(WeightRule(Proportional{.alpha = 8.0F}));
}

TEST(WeightRule, ZeroToTheZeroIsOneAndElseZeroWeighsNothing) {
  EXPECT_EQ(weigh(WeightRule(Proportional{.alpha = 0.0F, .epsilon = 0.0F}), {0.0F, 7.0F}),
            (std::vector{1.0F, 1.0F}));
  for (const float alpha : {0.5F, 0.6F, 1.0F}) {
    EXPECT_EQ(weigh(WeightRule(Proportional{.alpha = alpha, .epsilon = 0.0F}), {0.0F})[0], 0.0F);
    EXPECT_GT(weigh(WeightRule(Proportional{.alpha = alpha, .epsilon = 1e-4F}), {0.0F})[0], 0.0F);
  }
}

TEST(LossAdjusted, WeighsPrioritiesBelowOneAsOne) {
  const WeightRule rule(LossAdjusted{.alpha = 0.5F});
  EXPECT_EQ(weigh(rule, {0.0F, 0.25F, 1.0F, 4.0F, 100.0F}),
            (std::vector{1.0F, 1.0F, 1.0F, 2.0F, 10.0F}));
  EXPECT_EQ(rule.initial_weight(0.0F, 0.0F), 1.0F) << "of an empty buffer";
  EXPECT_EQ(WeightRule(LossAdjusted{.alpha = 0.5F,
                                    .initial = InitialPriority::Constant,
                                    .initial_constant = 0.25F})
                .initial_weight(9.0F, 9.0F),
            1.0F);
}

TEST(LossAdjusted, RefusesOptionsByName) {
  test::expect_refusal([] { (void)LossAdjusted{.alpha = 9.0F}.make_selector_rule(); },
                       {"LossAdjusted::alpha is 9", "allowed: 0 to 8"});
}

TEST(WeightRule, SaysWhichPrioritiesCanBeWeighed) {
  const WeightRule rule(Proportional{.alpha = 2.0F});
  EXPECT_TRUE(rule.weighable(0.0F));
  EXPECT_TRUE(rule.weighable(1e19F));
  EXPECT_FALSE(rule.weighable(1e20F));
  EXPECT_TRUE(WeightRule(Uniform{}).weighable(std::numeric_limits<float>::max()));
}

}  // namespace
}  // namespace reprise::select
