#pragma once

#include <reprise/selector.hpp>

#include "base/text.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace reprise::buffer {

/// The rules of a buffer's selectors, which all shards share. Any thread.
class Selectors {
 public:
  /// Throws what the selectors' `make_selector_rule` throw.
  explicit Selectors(std::span<const Selector> selectors) {
    for (const Selector& selector : selectors) {
      rules_.push_back(selector.make_selector_rule());
    }
  }

  [[nodiscard]] std::span<const std::unique_ptr<SelectorRule>> rules() const noexcept {
    return rules_;
  }
  [[nodiscard]] std::size_t size() const noexcept { return rules_.size(); }
  /// Throws std::invalid_argument for an unknown selector.
  [[nodiscard]] const SelectorRule& at(std::size_t selector) const {
    base::require(selector < size(), "selector is ", selector, "; allowed: 0 to ", size() - 1);
    return *rules_[selector];
  }
  /// How often an exponent was set. No exponent changes while the caller holds a shard's lock.
  /// A1: acquire; partner: set_alpha. Weights computed after this call use the exponent counted
  /// here or a later one.
  [[nodiscard]] std::uint64_t alphas_set() const noexcept {
    return alphas_set_.load(std::memory_order_acquire);
  }
  /// Sets the exponent of the rule only, not the weights in the shards. All shards' locks are held.
  /// Returns false if the rule does not have this exponent afterwards.
  [[nodiscard]] bool set_alpha(float alpha, std::size_t selector) noexcept {
    const bool set = rules_[selector]->set_alpha(alpha) && rules_[selector]->alpha() == alpha;
    // A1: release; partner: alphas_set.
    alphas_set_.fetch_add(1, std::memory_order_release);
    return set;
  }
  /// Whether a selector needs item numbers, because it draws in the order in which items were
  /// decided.
  [[nodiscard]] bool need_item_numbers() const noexcept {
    return std::ranges::any_of(rules_, [](const auto& rule) { return rule->needs_item_numbers(); });
  }
  /// Whether a selector requires a priority from the writer of each new item.
  [[nodiscard]] bool need_priorities() const noexcept {
    return std::ranges::any_of(rules_, [](const auto& rule) { return rule->needs_caller(); });
  }

 private:
  std::vector<std::unique_ptr<SelectorRule>> rules_;
  std::atomic<std::uint64_t> alphas_set_{0};
};

}  // namespace reprise::buffer
