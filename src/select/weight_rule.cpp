#include "select/weight_rule.hpp"

#include "base/describe.hpp"
#include "base/normal.hpp"
#include "base/text.hpp"
#include "select/tree_selector.hpp"
#include "tree/weighing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace reprise {

std::unique_ptr<SelectorRule> Proportional::make_selector_rule() const {
  selector_kind().check(*this);
  return std::make_unique<select::WeightRule>(*this);
}

StrategyKind<Selector> Proportional::selector_kind() {
  return base::describe<Selector, Proportional>(
      "Proportional",
      R"(Draws item i with probability weight_i / sum, weight = (priority + epsilon)^alpha
(Schaul et al., "Prioritized Experience Replay", 2016). Give raw priorities, such as absolute
TD errors: the exponent is applied once, inside.

alpha: 0 (uniform) to 8. epsilon: finite, at least 0.
initial: what a new item weighs without a priority of its own: "maximum_in_buffer",
  "highest_seen", a raw priority, or "from_caller", with which appends have to bring one.)",
      base::option<&Proportional::alpha>("alpha", 0.0F, select::kMaxAlpha),
      base::option<&Proportional::epsilon>("epsilon"),
      base::option<&Proportional::initial>("initial", select::kInitials),
      base::option<&Proportional::initial_constant>("initial_constant"));
}

std::unique_ptr<SelectorRule> LossAdjusted::make_selector_rule() const {
  selector_kind().check(*this);
  return std::make_unique<select::WeightRule>(*this);
}

StrategyKind<Selector> LossAdjusted::selector_kind() {
  return base::describe<Selector, LossAdjusted>(
      "LossAdjusted",
      R"(Draws item i with probability weight_i / sum, weight = max(priority, 1)^alpha (LAP: Fujimoto et
al., 2020). Learn with the Huber loss of threshold 1 and beta=0. `initial` as of Proportional.

alpha: 0 (uniform) to 8.)",
      base::option<&LossAdjusted::alpha>("alpha", 0.0F, select::kMaxAlpha),
      base::option<&LossAdjusted::initial>("initial", select::kInitials),
      base::option<&LossAdjusted::initial_constant>("initial_constant"));
}

std::unique_ptr<SelectorRule> Uniform::make_selector_rule() const {
  return std::make_unique<select::WeightRule>(*this);
}

StrategyKind<Selector> Uniform::selector_kind() {
  return base::describe<Selector, Uniform>(
      "Uniform", "Draws every item with the same probability; priorities are checked and ignored.");
}

namespace select {

void weigh_all(const SelectorRule& rule, std::span<const float> priorities,
               std::span<float> weights) noexcept {
  std::ranges::transform(priorities, weights.begin(), base::normal_or_0);
  rule.weigh(weights, weights);
  std::ranges::transform(weights, weights.begin(), [](float weight) {
    const float normal = base::normal_or_0(weight);  // Or NaN.
    return normal > 0.0F ? std::min(normal, std::numeric_limits<float>::max()) : 0.0F;
  });
}

float highest_seen_of(double stored) noexcept {
  using Limits = std::numeric_limits<float>;
  return stored > 0.0
             ? static_cast<float>(std::clamp(stored, double{Limits::min()}, double{Limits::max()}))
             : 0.0F;
}

WeightRule::WeightRule(const Proportional& options, const char* name)
    : alpha_(options.alpha),
      epsilon_(base::normal_or_0(options.epsilon)),
      initial_(options.initial),
      weighted_(true),
      initial_priority_(options.initial == InitialPriority::Constant ? options.initial_constant
                                                                     : 1.0F) {
  const auto require = [name](bool ok, const char* option, float value, const char* allowed) {
    base::require(ok, base::StrategyOf{name}, option, " is ", value, "; allowed: ", allowed);
  };
  require(weighable(0.0F), "epsilon", epsilon_, "one whose power alpha is finite");
  require(weighable(initial_priority_), "initial_constant", initial_priority_,
          "a priority whose weight is finite");
  set_alpha(options.alpha);
}

WeightRule::WeightRule(const LossAdjusted& options)
    : WeightRule(Proportional{.alpha = options.alpha,
                              .epsilon = 0.0F,
                              .initial = options.initial,
                              .initial_constant = options.initial_constant},
                 "LossAdjusted") {
  min_priority_ = 1.0F;
  set_alpha(options.alpha);
}

WeightRule::WeightRule(const Uniform& /*options*/) noexcept {}

WeightRule::WeightRule(const SelectorRule* other) noexcept
    : other_(other), initial_(InitialPriority::MaximumInBuffer), weighted_(true) {
  set_alpha(other->alpha().value_or(1.0F));
}

void WeightRule::check_alpha(float alpha) const {
  SelectorRule::check_alpha(alpha);
  WeightRule with_alpha(*this);
  with_alpha.alpha_.set(alpha);
  const bool epsilon_fails = !with_alpha.weighable(0.0F);
  if (epsilon_fails || !with_alpha.weighable(initial_priority_)) {
    base::refuse(base::Call{"set_alpha"}, "alpha is ", alpha, "; allowed: one with which ",
                 epsilon_fails ? "epsilon, " : "a new item of priority ",
                 epsilon_fails ? epsilon_ : initial_priority_, ", weighs a finite number");
  }
}

bool WeightRule::set_alpha(float alpha) noexcept {
  alpha_.set(alpha);
  float weight = 0.0F;
  weigh_all(*this, std::span(&initial_priority_, 1), std::span(&weight, 1));
  initial_weight_.set(weight);
  return true;
}

void WeightRule::weigh(std::span<const float> priorities, std::span<float> weights) const noexcept {
  if (other_ != nullptr) {
    other_->weigh(priorities, weights);
  } else if (min_priority_ > 0.0F) {
    std::ranges::transform(priorities, weights.begin(),
                           [this](float priority) { return std::max(priority, min_priority_); });
    tree::weigh(weights, base::normal_or_0(alpha_.get()), epsilon_, weights);
  } else if (weighted_) {
    tree::weigh(priorities, base::normal_or_0(alpha_.get()), epsilon_, weights);
  } else {
    std::fill(weights.begin(), weights.end(), 1.0F);
  }
}

float WeightRule::initial_weight(float in_buffer, float highest_seen) const noexcept {
  float highest = 0.0F;
  if (initial_ == InitialPriority::MaximumInBuffer) {
    highest = in_buffer;
  } else if (initial_ == InitialPriority::HighestSeen) {
    highest = highest_seen;
  }
  return highest > 0.0F ? highest : initial_weight_.get();
}

void WeightRule::weigh_run(std::span<const float> priorities, std::span<float> weights,
                           float& in_buffer, float& highest_seen) const noexcept {
  if (std::all_of(priorities.begin(), priorities.end(),
                  [](float priority) { return priority == kInitialPriority; })) {
    // The first item sets the maximum, and the others take it, so the whole run has one weight.
    const float weight = initial_weight(in_buffer, highest_seen);
    std::fill(weights.begin(), weights.end(), weight);
    in_buffer = std::max(in_buffer, weight);
    highest_seen = std::max(highest_seen, weight);
    return;
  }
  // Numbers below 0 mark rows without a priority: they are weighed as 0 here and replaced below. A
  // run of only marks needs no weighing.
  if (std::any_of(priorities.begin(), priorities.end(),
                  [](float priority) { return priority >= 0.0F; })) {
    weigh_all(*this, priorities, weights);
  }
  for (std::size_t i = 0; i < priorities.size(); ++i) {
    if (!is_item(priorities[i])) {
      weights[i] = 0.0F;
      continue;
    }
    if (priorities[i] == kInitialPriority) {
      weights[i] = initial_weight(in_buffer, highest_seen);
    }
    in_buffer = std::max(in_buffer, weights[i]);
    highest_seen = std::max(highest_seen, weights[i]);
  }
}

std::unique_ptr<ShardSelector> WeightRule::make_shard_selector(std::size_t leaves) const {
  return std::make_unique<TreeSelector>(*this, leaves);
}

}  // namespace select
}  // namespace reprise
