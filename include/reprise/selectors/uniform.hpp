#pragma once

#include <reprise/selector.hpp>

#include <memory>

namespace reprise {

/// Draws every item with the same probability; priorities are checked and ignored.
struct Uniform {
  /// Called by each buffer with this selector.
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const;
  /// Its name and options.
  [[nodiscard]] static StrategyKind<Selector> selector_kind();

  friend bool operator==(const Uniform&, const Uniform&) = default;
};

}  // namespace reprise
