#pragma once

#include <reprise/item.hpp>

#include "checks/testing.hpp"
#include "testing/library.hpp"

namespace stress {

/// A level is an integer from 0 to kTopLevel that stands for the priority level / kTopLevel.
inline constexpr std::uint32_t kTopLevel = 255;

[[nodiscard]] constexpr float priority_of(std::uint32_t level) noexcept {
  return static_cast<float>(level) / static_cast<float>(kTopLevel);
}

/// The level that a commit with explicit priorities gives the item that begins with this step.
[[nodiscard]] inline std::uint32_t first_level(const StepName& name) noexcept {
  return 1 + static_cast<std::uint32_t>(name.hash() % kTopLevel);
}

/// `first_level` if the item's priority came from a commit with explicit priorities. Other items
/// get the selector's initial weight, which the check does not know.
[[nodiscard]] inline std::optional<std::uint32_t> known_first_level(
    const CheckedItem& item, std::uint32_t full_length) noexcept {
  const bool by_commit = item.of_stream || item.episode.ends_by_commit() ||
                         item.name.position + full_length <= item.episode.length;
  return item.episode.explicit_priorities && by_commit ? std::optional(first_level(item.name))
                                                       : std::nullopt;
}

/// Whether an item may get priority 0. Few may, so that a buffer without new steps keeps items to
/// draw.
[[nodiscard]] inline bool may_get_zero(std::uint64_t name_hash) noexcept {
  return (name_hash >> 20U) % 32 == 0;
}

/// Index of the learner that alone updates this item, of `learners` many.
[[nodiscard]] inline std::size_t owner_of(std::uint64_t name_hash, std::size_t learners) noexcept {
  return static_cast<std::size_t>((name_hash >> 40U) % learners);
}

/// The priorities that one learner gave to its items. No other learner updates these items, so the
/// buffer has to have the same priorities. One thread at a time.
class KnownPriorities {
 public:
  /// Value that `level` returns for an item that was removed.
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

  /// Sets the level of the item of a key that may be stale, unless a newer item in its slot has a
  /// level.
  void set_unless_newer(reprise::ItemKey key, std::uint32_t level) {
    constexpr std::uint32_t kMask = reprise::ItemKey::kGenerationMask;
    const std::uint64_t entry = entries_[key.slot()];
    const std::uint32_t ahead = (reprise::ItemKey{entry}.generation() - key.generation()) & kMask;
    if (entry == kNone || ahead == 0 || ahead > kMask / 2) {
      set(key, level);
    }
  }
  /// Notes that an item was removed, if no newer item in its slot has a level. From then on `level`
  /// returns kRemoved.
  void remove(reprise::ItemKey key) { set_unless_newer(key, kRemoved); }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  std::vector<std::uint64_t> entries_;  ///< By slot: the key's upper half and the level.
};

}  // namespace stress
