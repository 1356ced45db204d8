#pragma once

#include <reprise/item.hpp>

#include "checks/testing.hpp"
#include "testing/library.hpp"

namespace stress {

/// Priorities are level / kTopLevel; level 0 is priority 0.
inline constexpr std::uint32_t kTopLevel = 255;

[[nodiscard]] constexpr float priority_of(std::uint32_t level) noexcept {
  return static_cast<float>(level) / static_cast<float>(kTopLevel);
}

/// The level that `commit` gives an item of an episode with explicit priorities.
[[nodiscard]] inline std::uint32_t first_level(const StepName& name) noexcept {
  return 1 + static_cast<std::uint32_t>(name.hash() % kTopLevel);
}

/// `first_level` if a commit with explicit priorities decides the item. Other items get the
/// selector's initial weight.
[[nodiscard]] inline std::optional<std::uint32_t> known_first_level(const CheckedItem& item,
                                                                    std::uint32_t reach) noexcept {
  const bool by_commit = item.of_stream || item.episode.ends_by_commit() ||
                         item.name.position + reach <= item.episode.length;
  return item.episode.explicit_priorities && by_commit ? std::optional(first_level(item.name))
                                                       : std::nullopt;
}

/// Few items ever get priority 0, so that a buffer without new steps keeps items to draw.
[[nodiscard]] inline bool may_get_zero(std::uint64_t name_hash) noexcept {
  return (name_hash >> 20U) % 32 == 0;
}

/// The learner, of `learners`, that alone updates this item.
[[nodiscard]] inline std::size_t owner_of(std::uint64_t name_hash, std::size_t learners) noexcept {
  return static_cast<std::size_t>((name_hash >> 40U) % learners);
}

/// The priorities that one learner gave to its items. No other learner updates them, so the buffer
/// has to have the same. One thread at a time.
class KnownPriorities {
 public:
  /// Marks an item that was removed.
  static constexpr std::uint32_t kRemoved = 1U << 31U;

  explicit KnownPriorities(std::size_t slots) : entries_(slots, kNone) {}

  [[nodiscard]] std::optional<std::uint32_t> level(reprise::ItemKey key) const {
    const std::uint64_t entry = entries_[key.slot()];
    return entry != kNone && entry >> 32U == key.bits >> 32U
               ? std::optional(static_cast<std::uint32_t>(entry))
               : std::nullopt;
  }

  void set(reprise::ItemKey key, std::uint32_t level) {
    if (this->level(key) != kRemoved) {
      entries_[key.slot()] = (key.bits >> 32U) << 32U | level;
    }
  }

  /// Sets a level by a key that may be stale, unless the slot has a newer item.
  void set_unless_newer(reprise::ItemKey key, std::uint32_t level) {
    constexpr std::uint32_t kMask = reprise::ItemKey::kGenerationMask;
    const std::uint64_t entry = entries_[key.slot()];
    const std::uint32_t ahead = (reprise::ItemKey{entry}.generation() - key.generation()) & kMask;
    if (entry == kNone || ahead == 0 || ahead > kMask / 2) {
      set(key, level);
    }
  }
  /// Notes that an item was removed, if it was there: from now on `level` returns kRemoved.
  void remove(reprise::ItemKey key) { set_unless_newer(key, kRemoved); }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  std::vector<std::uint64_t> entries_;
};

}  // namespace stress
