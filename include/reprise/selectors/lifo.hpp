#pragma once

#include <reprise/selector.hpp>

#include <memory>

namespace reprise {

/// Draws the items that were decided last, youngest first. It draws in order, as `Fifo` does.
struct Lifo {
  /// Called by each buffer with this selector.
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const;
  /// Its name and options.
  [[nodiscard]] static StrategyKind<Selector> selector_kind();

  friend bool operator==(const Lifo&, const Lifo&) = default;
};

}  // namespace reprise
