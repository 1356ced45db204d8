#pragma once

#include "checks/drawn.hpp"
#include "checks/testing.hpp"
#include "program/findings.hpp"
#include "testing/library.hpp"

namespace stress {

/// Checks the items of a batch by the rules of `test::ItemCheck`. One thread at a time.
///
/// Once `may_cut` is set, episodes may end early as truncated: a writer that is destroyed after
/// `close`, or at the end of a run whose limiter holds it, truncates its episode. A draw under way
/// may see such an episode.
class WindowCheck {
 public:
  WindowCheck(const ItemCheck& check, const std::atomic<bool>& may_cut, Findings& findings)
      : check_(check), may_cut_episodes_(may_cut), findings_(findings) {}

  /// Adds a finding for each wrong item. The span returned is valid until the next call.
  CheckedItems check(const reprise::Batch& batch) {
    items_.assign(batch.size(), {});
    for (std::size_t i = 0; i < batch.size(); ++i) {
      check_item(batch, i);
    }
    return items_;
  }
  /// Does the same for a batch of `gather`, which leaves rows without an item for keys whose items
  /// are gone. Such a row is neither correct nor a finding.
  CheckedItems check_gathered(const reprise::Batch& batch) {
    items_.assign(batch.size(), {});
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (batch.lengths()[i] != 0) {
        check_item(batch, i);
      }
    }
    return items_;
  }

 private:
  void check_item(const reprise::Batch& batch, std::size_t i) {
    // Acquire; partner: the conductor's store, which the writer saw before it truncated its
    // episode.
    const std::string words =
        check_.mismatch(batch, i, items_[i], may_cut_episodes_.load(std::memory_order_acquire));
    if (!words.empty()) {
      const bool torn = words.find(" torn") != std::string::npos;
      findings_.add(
          torn ? Finding::TornRow : Finding::WrongWindow,
          "item " + std::to_string(i) + ", " + describe_key(batch.keys()[i]) + ": " + words);
    }
  }

  const ItemCheck check_;
  const std::atomic<bool>& may_cut_episodes_;
  Findings& findings_;
  std::vector<CheckedItem> items_;
};

}  // namespace stress
