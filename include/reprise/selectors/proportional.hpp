#pragma once

#include <reprise/selector.hpp>

#include <cstdint>
#include <memory>

namespace reprise {

/// The weight of a new item when `commit` brings no priority for it. A maximum whose weight is 0
/// counts as none.
enum class InitialPriority : std::uint8_t {
  MaximumInBuffer,  ///< The highest priority in the buffer at the moment the item enters,
                    ///< decayed like the item that has it; 1 if none.
  HighestSeen,      ///< The highest priority there ever was, never decayed; 1 if none.
  Constant,         ///< `Proportional::initial_constant`.
  /// `commit` without priorities throws. Items that a destructor or `begin_episode` decides have
  /// priority 1; `add_transition`, which takes no priorities, throws if it decides an item.
  FromCaller,
};

/// Draws item i with probability weight_i / sum of weights, weight = (priority + epsilon)^alpha
/// (Schaul et al., "Prioritized Experience Replay", 2016, proportional variant).
///
/// The exponent is applied once, inside: give raw priorities such as abs(TD error). 0^0 is 1. An
/// item of weight 0 is never drawn. A weight above 0 that would be below 2^-126 is 2^-126, so an
/// item of a priority above 0 can always be drawn.
struct Proportional {
  float alpha = 0.6F;     ///< 0 (uniform) to 8; `SelectorHandle::set_alpha` changes it.
  float epsilon = 1e-4F;  ///< Added to each priority, finite, at least 0.
  /// The priority of items that are committed without one.
  InitialPriority initial = InitialPriority::MaximumInBuffer;
  float initial_constant = 1.0F;  ///< Raw priority for `InitialPriority::Constant`.

  /// Called by each buffer with this selector.
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const;
  /// Its name and options.
  [[nodiscard]] static StrategyKind<Selector> selector_kind();

  friend bool operator==(const Proportional&, const Proportional&) = default;
};

}  // namespace reprise
