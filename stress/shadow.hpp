#pragma once

#include <reprise/item_key.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace stress {

/// The priorities that one learner gave to its items. It alone updates them, so they are the
/// priorities that the items have. One thread at a time.
class Shadow {
 public:
  /// In the place of the level of an item that was removed.
  static constexpr std::uint32_t kRemoved = 1U << 31U;

  explicit Shadow(std::size_t places) : entries_(places, kNone) {}

  [[nodiscard]] std::optional<std::uint32_t> level(std::uint64_t key) const {
    const std::uint64_t entry = entries_[static_cast<std::uint32_t>(key)];
    return entry != kNone && entry >> 32U == key >> 32U
               ? std::optional(static_cast<std::uint32_t>(entry))
               : std::nullopt;
  }

  void set(std::uint64_t key, std::uint32_t level) {
    if (this->level(key) != kRemoved) {
      entries_[static_cast<std::uint32_t>(key)] = (key >> 32U) << 32U | level;
    }
  }

  /// For a key that may be stale: does not change the entry of an item that came later.
  void set_unless_newer(std::uint64_t key, std::uint32_t level) {
    const std::uint64_t entry = entries_[static_cast<std::uint32_t>(key)];
    const std::uint32_t ahead = (generation(entry) - generation(key)) & kMask;
    if (entry == kNone || ahead == 0 || ahead > kMask / 2) {
      set(key, level);
    }
  }
  /// The item was removed, if it was there: `level` gives kRemoved for good.
  void remove(std::uint64_t key) { set_unless_newer(key, kRemoved); }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  static constexpr std::uint32_t kMask = reprise::ItemKey::kGenerationMask;
  static std::uint32_t generation(std::uint64_t bits) {
    return reprise::ItemKey{bits}.generation();
  }

  std::vector<std::uint64_t> entries_;
};

}  // namespace stress
