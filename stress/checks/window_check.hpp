#pragma once

#include "checks/drawn.hpp"
#include "checks/testing.hpp"
#include "program/findings.hpp"
#include "testing/library.hpp"

namespace stress {

/// Checks the items of a batch by the rules of `test::ItemCheck`. One thread at a time.
///
/// Once `cutting` is set, episodes may end early as truncated: a writer that is destroyed after
/// `close`, or at the end of a run whose limiter holds it, truncates its episode. A draw under way
/// may see such an episode.
class WindowCheck {
 public:
  WindowCheck(const ItemCheck& check, const std::atomic<bool>& cutting, Findings& findings)
      : check_(check), cutting_(cutting), findings_(findings) {}

  /// Adds a finding for each wrong item. The span returned is valid until the next call.
  /// `some_gone`: the batch may have rows without an item, as `gather` leaves them; these are
  /// neither right nor a fault.
  CheckedItems check(const reprise::Batch& batch, bool some_gone = false) {
    items_.assign(batch.size(), {});
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (some_gone && batch.lengths()[i] == 0) {
        continue;
      }
      // Acquire; partner: the conductor's store, which the writer saw before it truncated its
      // episode.
      const std::string words =
          check_.mismatch(batch, i, items_[i], cutting_.load(std::memory_order_acquire));
      if (!words.empty()) {
        const bool torn = words.find(" torn") != std::string::npos;
        findings_.add(
            torn ? Finding::TornRow : Finding::WrongWindow,
            "item " + std::to_string(i) + ", " + words_of(batch.keys()[i]) + ": " + words);
      }
    }
    return items_;
  }

 private:
  const ItemCheck check_;
  const std::atomic<bool>& cutting_;
  Findings& findings_;
  std::vector<CheckedItem> items_;
};

}  // namespace stress
