#pragma once

#include <reprise/selector.hpp>

#include <memory>

namespace reprise {

/// Draws recent items more often: item i with probability (1 - p)^age(i) / sum of (1 - p)^age, the
/// geometric distribution truncated to the items in the buffer, which is enough of a preference
/// where steps are replayed seldom (Korniak et al., "When Does Non-Uniform Replay Matter in
/// Reinforcement Learning?", 2026). Priorities are checked and ignored.
///
/// The age of an item is the number of items of the whole buffer that were decided after it, by any
/// writer, in any shard, also items that have left the buffer, are outdated or removed; steps
/// without an item do not count. With N items of ages 0 to N - 1, as `Fifo` leaves them, the
/// probability is p (1 - p)^age / (1 - (1 - p)^N), and the mean age is near 1 / p if N is many
/// times that. The probability reported has the rounding of a float. Items older than about 87 / p,
/// which are 2^126 times less likely than the youngest, are all as likely as one of that age.
///
/// Cost: as `Uniform`, and 8 bytes more per row and one counter that all writers share. Every 44 /
/// p items decided, the next draw changes all weights to smaller units: about a millisecond for
/// 2^20 items. A draw at that moment may prefer some shards; it reports the probabilities with
/// which it really drew.
struct Recency {
  /// 0 (uniform) to 0.5. An item is 1 - p times as likely as the next younger one.
  float p = 1e-5F;

  /// Called by each buffer with this selector.
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const;
  /// Its name and options.
  [[nodiscard]] static StrategyKind<Selector> selector_kind();

  friend bool operator==(const Recency&, const Recency&) = default;
};

}  // namespace reprise
