#pragma once

#include "drawing.hpp"
#include "testing/fixtures/removers.hpp"
#include "testing/test.hpp"

namespace reprise::test {

/// Whether weights by this rule are rounded: leaves are floats, in which only whole ones are exact.
[[nodiscard]] constexpr bool is_rounded(DrawRule draw_rule) {
  return draw_rule == DrawRule::ByRank || draw_rule == DrawRule::ByAge ||
         draw_rule == DrawRule::Mixed;
}

template <class Strategy>
struct NamedStrategy {
  std::string name;
  Strategy strategy;

  friend std::ostream& operator<<(std::ostream& out, const NamedStrategy& named) {
    return out << named.name;
  }
};

struct NamedSelector : NamedStrategy<Selector> {
  DrawRule draw_rule;
  /// The rule of `DrawRule::ByPriority`. Every selector gives items without a priority its
  /// constant.
  Proportional weight_rule = {.alpha = 1.0F, .epsilon = 0.0F, .initial = InitialPriority::Constant};
};
using NamedWindow = NamedStrategy<Window>;
using NamedLimiter = NamedStrategy<RateLimiter>;

/// Large enough that `Recency` changes the unit of its weights within a test.
inline constexpr float kRecencyP = 0.1F;
inline constexpr double kMixedUniform = 0.25;

/// Every selector of the library. Priorities are whole numbers and are the weights themselves, so
/// that probabilities are exact; an item without a priority gets 1.
inline std::vector<NamedSelector> all_selectors() {
  const std::map<std::string_view, OptionValue> options = {
      {"p", kRecencyP},
      {"uniform", static_cast<float>(kMixedUniform)},
      {"alpha", 1.0F},
      {"epsilon", 0.0F},
      {"initial", static_cast<std::uint64_t>(InitialPriority::Constant)},
      {"initial_constant", 1.0F}};
  std::vector<NamedSelector> all;
  for (const StrategyKind<Selector>& kind : selectors()) {
    std::vector<OptionValue> values;
    for (const StrategyOption& option : kind.options()) {
      const auto given = options.find(option.name);
      values.push_back(given == options.end() ? option.value : given->second);
    }
    all.push_back({{std::string(kind.name()), kind.make(values)}, draw_rule_of(kind.name())});
  }
  return all;
}

inline std::vector<NamedWindow> all_windows() {
  const auto sequences = [](std::uint32_t length, std::uint32_t period, std::uint32_t burn_in,
                            SequenceEnd end, std::uint32_t n_step, std::uint32_t frame_stack) {
    return Sequences{.length = length,
                     .period = period,
                     .burn_in = burn_in,
                     .end = end,
                     .n_step = n_step,
                     .frame_stack = frame_stack};
  };
  return {
      {"Transitions", Transitions{.n_step = 3, .frame_stack = 2, .stack_start = StackStart::Zeros}},
      {"SequencesWithoutBurnIn", sequences(4, 3, 0, SequenceEnd::ZeroPad, 0, 1)},
      {"SequencesPadded", sequences(4, 2, 1, SequenceEnd::ZeroPad, 3, 3)},
      {"SequencesDropped", sequences(3, 5, 0, SequenceEnd::Drop, 0, 2)},
      {"SequencesOverlapping", sequences(3, 4, 2, SequenceEnd::Overlap, 7, 1)},
      {"SequencesContinuing", sequences(5, 3, 1, SequenceEnd::Continue, 3, 2)},
  };
}

inline std::vector<NamedLimiter> all_limiters() {
  return {
      {"Unlimited", Unlimited{}},
      {"MinSize", MinSize{.items = 7}},
      {"Queue", Queue{.size = 9}},
      {"SampleToInsertRatio",
       SampleToInsertRatio{.samples_per_insert = 0.5, .min_size = 7, .error_buffer = 15.0}},
  };
}

}  // namespace reprise::test
