#pragma once

#include "checks/drawn.hpp"
#include "program/findings.hpp"
#include "testing/library.hpp"

#include <unordered_map>
#include <unordered_set>

namespace stress {

/// Checks that a batch or pass has no item twice where items must not repeat, and that ordered
/// selectors give the first items. One thread at a time.
///
/// Windows of one writer become complete in the order of its steps, so a batch drawn by age has its
/// items in that order, whatever other writers do. If each item is drawn once, this also holds from
/// batch to batch: an item that was left out would come after items that follow it. A batch drawn
/// by priority is drawn at one moment, and the learner knows the priorities of the items that it
/// alone updates.
class OrderCheck {
 public:
  OrderCheck(DrawRule draw_rule, bool each_once, Findings& findings)
      : draw_rule_(draw_rule),
        order_spans_batches_(each_once && draw_rule == DrawRule::Oldest),
        findings_(findings) {}

  /// `levels` has the level of each item's priority, without a value where that is uncertain.
  void check(const Drawn& drawn, CheckedItems items,
             std::span<const std::optional<std::uint32_t>> levels);

 private:
  void check_repeats(const Drawn& drawn);
  void check_pass(const Drawn& drawn);
  /// Ordered selectors leave nothing to chance: each probability and weight is 1.
  void check_certain(const Drawn& drawn);
  void check_by_age(const Drawn& drawn, CheckedItems items);
  void check_by_priority(const Drawn& drawn, std::span<const std::optional<std::uint32_t>> levels);

  const DrawRule draw_rule_;
  const bool
      order_spans_batches_;  ///< Whether the order within a batch also holds between batches.
  Findings& findings_;
  std::vector<reprise::ItemKey> sorted_;
  std::unordered_set<std::uint64_t> pass_;  ///< Keys drawn in the current pass.
  std::uint64_t passes_ = 0;                ///< Passes completed before the current one.
  std::unordered_map<std::uint32_t, std::uint64_t> last_;  ///< The last step drawn of each writer.
};

}  // namespace stress
