#pragma once

#include <reprise/selector.hpp>
#include <reprise/selectors/proportional.hpp>

#include <memory>

namespace reprise {

/// Draws item i with probability proportional to rank(i)^-alpha, where the item of highest priority
/// in the whole buffer has rank 1 (Schaul et al., "Prioritized Experience Replay", 2016, rank-based
/// variant). Only the ranks of priorities count, so outliers do not matter. Items of equal priority
/// share their ranks: each has the mean weight. So do those of priorities above 0 and below 2^-126,
/// which count as 2^-126 as with every selector. Every item can be drawn, also one of priority 0,
/// which has the last rank.
///
/// Ranks are those at the moment of the call; concurrent changes may shift them a little. The first
/// 128 ranks are exact. Below, items are drawn uniformly from buckets of neighbouring ranks, at
/// most a sixteenth of the rank wide: within 0.6% of the exact distribution in total variation,
/// whatever alpha is. The probability reported is that of the distribution really drawn from.
///
/// Cost: a few microseconds per call more than `Proportional`, about twice the time per update, and
/// 15 bytes more per row. A call that meets many new priorities at once sorts them, at most each
/// priority once.
///
/// Which of several items with one weight a seed draws depends on the order in which the items got
/// that weight. A draw without replacement changes that order, and so does a load.
struct RankBased {
  float alpha = 0.7F;  ///< 0 (uniform) to 8.
  /// The priority of items that are committed without one.
  InitialPriority initial = InitialPriority::MaximumInBuffer;
  float initial_constant = 1.0F;  ///< For `InitialPriority::Constant`; finite, at least 0.

  /// Called by each buffer with this selector.
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const;
  /// Its name and options.
  [[nodiscard]] static StrategyKind<Selector> selector_kind();

  friend bool operator==(const RankBased&, const RankBased&) = default;
};

}  // namespace reprise
