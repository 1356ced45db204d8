#pragma once

#include "checks/drawn.hpp"
#include "program/findings.hpp"
#include "testing/library.hpp"

namespace stress {

/// Counts how often all learners together drew each item, in buffers with a limit of draws. Each
/// slot of the buffer has one entry, which is for the newest item drawn from that slot. Any thread.
class DrawCounts {
 public:
  /// `max_draws`: how often an item may be drawn; 0: there is no limit, and draws are not counted.
  /// `fresh`: batches have fresh items.
  DrawCounts(std::size_t slots, std::uint32_t max_draws, bool fresh, Findings& findings)
      : max_draws_(max_draws),
        findings_(findings),
        entries_(max_draws != 0 ? slots : 0),
        fresh_(fresh ? slots : 0, kNoKey) {}

  /// Takes over the counts of a buffer that was saved while nobody drew from it. This object then
  /// counts for the loaded buffer, from which one learner draws.
  void continue_from(const DrawCounts& saved);

  /// Reports items that were drawn as fresh twice, items drawn too often, and keys that name two
  /// items.
  void count(const Drawn& drawn, CheckedItems items);

  /// Counts the keys that name exhausted items.
  [[nodiscard]] std::size_t exhausted(std::span<const reprise::ItemKey> keys) const;

 private:
  /// A key that names no item. (0 is the key of the first item if the buffer's tag is 0.)
  static constexpr reprise::ItemKey kNoKey{~std::uint64_t{0}};
  struct Entry {
    reprise::ItemKey key;
    std::uint64_t hash = 0;   ///< Hash of the item's name.
    std::uint32_t draws = 0;  ///< 0: no item has been drawn from this slot.
  };

  const std::uint32_t max_draws_;
  Findings& findings_;
  bool loaded_ = false;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // Guarded by mutex_.
  /// The key that was last drawn as fresh, by slot. Guarded by mutex_.
  std::vector<reprise::ItemKey> fresh_;
};

}  // namespace stress
