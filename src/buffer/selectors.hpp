#pragma once

#include <reprise/options.hpp>
#include <reprise/selector.hpp>

#include "select/weight_rule.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace reprise::buffer {

/// The rules of a buffer's selectors, which all shards share. Any thread.
class Selectors {
 public:
  /// Throws what the selectors throw.
  explicit Selectors(std::span<const Selector> selectors);

  [[nodiscard]] std::span<const std::unique_ptr<SelectorRule>> rules() const noexcept {
    return rules_;
  }
  [[nodiscard]] std::size_t size() const noexcept { return rules_.size(); }
  /// std::invalid_argument for an unknown selector.
  [[nodiscard]] const SelectorRule& at(std::size_t selector) const;
  /// The rule that turns priorities into weights by itself; null if it is of another kind.
  [[nodiscard]] select::WeightRule* weight_rule(std::size_t selector) const noexcept {
    return weight_rules_[selector];
  }
  /// The exponent of a `Proportional` selector; below 0 if it is of another kind.
  [[nodiscard]] float alpha(std::size_t selector) const noexcept;
  /// Whether some selector draws in the order in which items were decided.
  [[nodiscard]] bool need_order() const noexcept;
  /// Whether new items take a priority from their writer.
  [[nodiscard]] bool need_caller() const noexcept;

 private:
  std::vector<std::unique_ptr<SelectorRule>> rules_;
  std::vector<select::WeightRule*> weight_rules_;  ///< The same, where they are; else null.
};

}  // namespace reprise::buffer
