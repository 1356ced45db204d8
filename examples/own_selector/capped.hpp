// A selector whose items weigh (1 + min(priority, 10))^alpha: an outlier counts no more than an
// error of 10, and an item without any error can still be drawn.
#pragma once

#include <reprise/selector.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>

struct Capped {
  /// Computes weights from priorities; reprise keeps the weights and draws by them.
  struct Rule final : reprise::SelectorRule {
    std::atomic<float> exponent = 0.4F;
    void weigh(std::span<const float> priorities, std::span<float> weights) const noexcept final {
      std::ranges::transform(priorities, weights.begin(), [a = exponent.load()](float priority) {
        return std::pow(1.0F + std::min(priority, 10.0F), a);
      });
    }
    // ReplayBuffer::set_alpha needs these two functions; without them it throws.
    std::optional<float> alpha() const noexcept final { return exponent.load(); }
    bool set_alpha(float alpha) noexcept final {
      exponent = alpha;
      return true;
    }
  };
  std::unique_ptr<reprise::SelectorRule> make_selector_rule() const {
    return std::make_unique<Rule>();
  }
};
