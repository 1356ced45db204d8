#pragma once

#include <compare>
#include <cstdint>

namespace reprise {

/// Names one item of one buffer for as long as that item can be sampled.
///
/// 32 bits of slot, 20 of generation, 12 of the buffer's tag. A key whose item was evicted or
/// removed is *stale*: it never names the item that took its place. (The generation of a slot
/// returns after 2^20 reuses of its chunk: a key must not be kept longer than that.)
struct ItemKey {
  std::uint64_t bits = 0;  ///< Slot, generation and tag, from the lowest bit on.

  /// Number of its row.
  [[nodiscard]] constexpr std::uint32_t slot() const noexcept {
    return static_cast<std::uint32_t>(bits);
  }
  /// Reuses of its row, modulo 2^20.
  [[nodiscard]] constexpr std::uint32_t generation() const noexcept {
    return static_cast<std::uint32_t>(bits >> 32U) & kGenerationMask;
  }
  /// `Options::key_tag` of its buffer.
  [[nodiscard]] constexpr std::uint32_t tag() const noexcept {
    return static_cast<std::uint32_t>(bits >> 52U);
  }

  /// Puts a key together; excess bits are cut off.
  [[nodiscard]] static constexpr ItemKey make(std::uint32_t slot, std::uint32_t generation,
                                              std::uint32_t tag) noexcept {
    return ItemKey{static_cast<std::uint64_t>(slot) |
                   static_cast<std::uint64_t>(generation & kGenerationMask) << 32U |
                   static_cast<std::uint64_t>(tag & kTagMask) << 52U};
  }

  friend constexpr auto operator<=>(ItemKey, ItemKey) = default;

  static constexpr std::uint32_t kGenerationMask = (1U << 20U) - 1U;  ///< The bits of a generation.
  static constexpr std::uint32_t kTagMask = (1U << 12U) - 1U;         ///< The bits of a tag.
};
static_assert(sizeof(ItemKey) == sizeof(std::int64_t));

}  // namespace reprise
