#include "buffer/selectors.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace reprise::buffer {

Selectors::Selectors(std::span<const Selector> selectors) {
  rules_.reserve(selectors.size());
  for (const Selector& selector : selectors) {
    rules_.push_back(selector.make_selector_rule());
  }
}

const SelectorRule& Selectors::at(std::size_t selector) const {
  if (selector >= rules_.size()) {
    throw std::invalid_argument("selector is " + std::to_string(selector) + "; allowed: 0 to " +
                                std::to_string(rules_.size() - 1));
  }
  return *rules_[selector];
}

bool Selectors::need_item_numbers() const noexcept {
  return std::any_of(rules_.begin(), rules_.end(),
                     [](const auto& rule) { return rule->needs_item_numbers(); });
}

bool Selectors::need_caller() const noexcept {
  return std::any_of(rules_.begin(), rules_.end(),
                     [](const auto& rule) { return rule->needs_caller(); });
}

}  // namespace reprise::buffer
