#include "select/rule.hpp"

#include "base/text.hpp"
#include "select/tree_selector.hpp"
#include "tree/weighing.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
namespace reprise::select {
namespace {

constexpr float kMaxAlpha = 8.0F;

void require(bool ok, const char* option, float value, const char* allowed) {
  if (!ok) {
    throw std::invalid_argument(
        base::text("Proportional::", option, " is ", value, "; allowed: ", allowed));
  }
}

}  // namespace

Rule::Rule(const Selector& options) {
  const auto* proportional = std::get_if<Proportional>(&options);
  if (proportional == nullptr) {
    return;
  }
  const auto& [alpha, epsilon, initial, constant] = *proportional;
  require(alpha >= 0.0F && alpha <= kMaxAlpha, "alpha", alpha, "0 to 8");
  require(std::isfinite(epsilon) && epsilon >= 0.0F, "epsilon", epsilon, "finite, at least 0");
  require(std::isfinite(constant) && constant >= 0.0F, "initial_constant", constant,
          "finite, at least 0");
  weighted_ = true;
  alpha_ = alpha;
  epsilon_ = epsilon;
  initial_ = initial;
  const float unresolved = initial == InitialPriority::Constant ? constant : 1.0F;
  require(weighable(0.0F), "epsilon", epsilon, "one whose power alpha is finite");
  require(weighable(unresolved), "initial_constant", unresolved,
          "one whose weight (initial_constant + epsilon)^alpha is finite");
  weigh(std::span(&unresolved, 1), std::span(&initial_weight_, 1));
}

void Rule::weigh(std::span<const float> priorities, std::span<float> weights) const noexcept {
  if (weighted_) {
    tree::weigh(priorities, alpha_, epsilon_, weights);
  } else {
    std::fill(weights.begin(), weights.end(), 1.0F);
  }
}

bool Rule::weighable(float priority) const noexcept {
  float weight = 0.0F;
  weigh(std::span(&priority, 1), std::span(&weight, 1));
  return std::isfinite(weight);
}

float Rule::initial_weight(float in_buffer, float ever) const noexcept {
  float highest = 0.0F;
  if (initial_ == InitialPriority::MaximumInBuffer) {
    highest = in_buffer;
  } else if (initial_ == InitialPriority::HighestSeen) {
    highest = ever;
  }
  return highest > 0.0F ? highest : initial_weight_;
}

std::unique_ptr<ShardSelector> Rule::make_shard_half(std::size_t leaves) const {
  return std::make_unique<TreeSelector>(*this, leaves);
}

}  // namespace reprise::select
