#include "testing/worlds/conformance.hpp"

#include "testing/test.hpp"

namespace reprise::test {
namespace {

using Combination = std::tuple<NamedSelector, NamedRemover, NamedWindow, NamedLimiter>;

class EveryCombination : public testing::TestWithParam<Combination> {};

std::string name_of_combination(const testing::TestParamInfo<Combination>& info) {
  const auto& [selector, remover, window, limiter] = info.param;
  return selector.name + "_" + remover.name + "_" + window.name + "_" + limiter.name;
}

INSTANTIATE_TEST_SUITE_P(Conformance, EveryCombination,
                         testing::Combine(testing::ValuesIn(all_selectors()),
                                          testing::ValuesIn(all_removers()),
                                          testing::ValuesIn(all_windows()),
                                          testing::ValuesIn(all_limiters())),
                         name_of_combination);

TEST_P(EveryCombination, KeepsWhatEachPartPromises) {
  const auto& [selector, remover, window, limiter] = GetParam();
  for (std::uint64_t seed = 1; seed <= scaled(5) && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Conformance::Setting setting{selector, remover.remover, window.strategy, limiter.strategy};
    setting.fields.compressed = seed % 2 == 0;
    setting.fields.mutable_columns = seed % 3 == 0;
    setting.fields.versions = seed % 4 < 2;
    Conformance(setting, seed).run(150);
  }
}

/// A setting with a random window, selector, remover, limiter and random fields.
Conformance::Setting random_setting(Rng& rng) {
  const auto to = [&](std::size_t most) {
    return static_cast<std::uint32_t>(rng.between(1, most));
  };
  Conformance::Setting setting{all_selectors()[rng.below(all_selectors().size())], Fifo{},
                               Transitions{}, Unlimited{}};
  if (rng.chance(0.6)) {
    constexpr InitialPriority kRules[] = {InitialPriority::MaximumInBuffer,
                                          InitialPriority::HighestSeen, InitialPriority::Constant};
    Proportional weight_rule{.initial = kRules[rng.below(3)], .initial_constant = 2.0F};
    // With alpha 0, 1 or 2, powers of whole numbers are exact, so probabilities have to be exact.
    const bool exact = rng.chance(0.6);
    weight_rule.alpha =
        static_cast<float>(exact ? static_cast<double>(rng.below(3)) : 2.0 * rng.unit());
    weight_rule.epsilon = exact ? 0.0F : 0.01F;
    setting.selector = {{"Proportional", weight_rule}, DrawRule::ByPriority, weight_rule};
  }
  if (rng.chance(0.5)) {
    setting.window =
        Transitions{.n_step = to(7),
                    .discount = rng.chance(0.2) ? 1.0F : static_cast<float>(rng.unit()),
                    .frame_stack = to(5),
                    .stack_start = rng.chance(0.5) ? StackStart::RepeatFirst : StackStart::Zeros};
  } else {
    setting.window = Sequences{.length = to(12),
                               .period = to(15),
                               .burn_in = to(5) - 1,
                               .end = static_cast<SequenceEnd>(rng.below(4)),
                               .n_step = rng.chance(0.5) ? 0 : to(7),
                               .discount = rng.chance(0.2) ? 1.0F : static_cast<float>(rng.unit()),
                               .frame_stack = rng.chance(0.5) ? 1 : to(5),
                               .stack_start = static_cast<StackStart>(rng.below(2))};
    setting.fields.states = rng.chance(0.7);
  }
  if (rng.chance(0.4)) {
    setting.remover = all_removers()[rng.below(all_removers().size())].remover;
  }
  if (rng.chance(0.4)) {
    setting.limiter = all_limiters()[rng.below(all_limiters().size())].strategy;
  }
  setting.fields.discount = rng.chance(0.4);
  setting.end_share = 0.02 + 0.3 * rng.unit() * rng.unit();
  setting.fields.compressed = rng.chance(0.4);
  setting.fields.mutable_columns = rng.chance(0.5);
  setting.fields.versions = rng.chance(0.5);
  return setting;
}

constexpr std::uint64_t kParts = 4;

class Model : public testing::TestWithParam<std::uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Parts, Model, testing::Range(std::uint64_t{0}, kParts));

TEST_P(Model, AgreesWithTheBufferAfterEveryCall) {
  for (std::uint64_t seed = GetParam(); seed < scaled(400, 40) && !HasFailure(); seed += kParts) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    Conformance(random_setting(rng), seed).run(500);
  }
}

}  // namespace
}  // namespace reprise::test
