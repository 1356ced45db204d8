#pragma once

#include <reprise/selector.hpp>
#include <reprise/selectors/proportional.hpp>

#include <memory>

namespace reprise {

/// Draws item i with probability weight_i / sum of weights, weight = max(priority, 1)^alpha (LAP:
/// Fujimoto, Meger and Precup, "An Equivalence between Loss Functions and Non-Uniform Sampling in
/// Experience Replay", 2020). Give abs(TD error), and learn with the Huber loss of threshold 1 and
/// without importance weights: items whose error is below 1 are then drawn alike, and the others
/// have the gradient of the mean absolute error. No item has a weight of 0. Costs as
/// `Proportional`.
struct LossAdjusted {
  float alpha = 0.4F;  ///< 0 (uniform) to 8; `SelectorHandle::set_alpha` changes it.
  /// The priority of items that are committed without one.
  InitialPriority initial = InitialPriority::MaximumInBuffer;
  float initial_constant = 1.0F;  ///< For `InitialPriority::Constant`; finite, at least 0.

  /// Called by each buffer with this selector.
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const;
  /// Its name and options.
  [[nodiscard]] static StrategyKind<Selector> selector_kind();

  friend bool operator==(const LossAdjusted&, const LossAdjusted&) = default;
};

}  // namespace reprise
