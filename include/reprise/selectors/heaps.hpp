#pragma once

#include <reprise/selector.hpp>
#include <reprise/selectors/proportional.hpp>

#include <memory>

namespace reprise {

/// Draws the items of highest priority, highest first; among equals in one shard, the first in
/// memory. It draws in order, as `Fifo` does, but needs no counter. A priority of 0 is drawn last.
struct MaxHeap {
  /// The priority of items that are committed without one.
  InitialPriority initial = InitialPriority::MaximumInBuffer;
  float initial_constant = 1.0F;  ///< For `InitialPriority::Constant`; finite, at least 0.

  /// Called by each buffer with this selector.
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const;
  /// Its name and options.
  [[nodiscard]] static StrategyKind<Selector> selector_kind();

  friend bool operator==(const MaxHeap&, const MaxHeap&) = default;
};

/// As `MaxHeap`, with the lowest priority first.
struct MinHeap {
  /// The priority of items that are committed without one. Any value but `MaximumInBuffer`, because
  /// this selector knows only the lowest priority in the buffer.
  InitialPriority initial = InitialPriority::HighestSeen;
  float initial_constant = 1.0F;  ///< For `InitialPriority::Constant`; finite, at least 0.

  /// Called by each buffer with this selector.
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const;
  /// Its name and options.
  [[nodiscard]] static StrategyKind<Selector> selector_kind();

  friend bool operator==(const MinHeap&, const MinHeap&) = default;
};

}  // namespace reprise
