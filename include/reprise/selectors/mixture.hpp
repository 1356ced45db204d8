#pragma once

#include <reprise/selector.hpp>
#include <reprise/selectors/proportional.hpp>

#include <memory>

namespace reprise {

/// Draws uniformly with probability `uniform`, else as `Proportional` without an epsilon: item i
/// with probability uniform / N + (1 - uniform) * weight_i / sum of weights, weight =
/// priority^alpha, where N is the number of items that can be drawn; 1 / N if no weight is above 0.
/// So importance weights are bounded: no item is drawn less often than `uniform` times as often as
/// by `Uniform`.
///
/// A batch reports the probability of the whole mixture, whichever part an item was drawn by, with
/// the rounding of a float, and an update sets the priority for the whole. The sums are those at
/// the moment of the call. Concurrent changes may shift them a little; then the probabilities
/// reported are those really drawn with. `Normalise::ByBuffer` divides by the importance weight of
/// an item of priority 0, whether the buffer has such an item or not.
///
/// Cost: two trees, about 9 bytes more per row than `Proportional`, and each shard's lock twice
/// more per call.
struct Mixture {
  float uniform = 0.1F;  ///< Share of the uniform draws, 0 to 1.
  float alpha = 0.6F;    ///< 0 to 8; `SelectorHandle::set_alpha` changes it.
  /// The priority of items that are committed without one.
  InitialPriority initial = InitialPriority::MaximumInBuffer;
  float initial_constant = 1.0F;  ///< For `InitialPriority::Constant`; finite, at least 0.

  /// Called by each buffer with this selector.
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const;
  /// Its name and options.
  [[nodiscard]] static StrategyKind<Selector> selector_kind();

  friend bool operator==(const Mixture&, const Mixture&) = default;
};

}  // namespace reprise
