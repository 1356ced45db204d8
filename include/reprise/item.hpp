#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace reprise {

/// Names one item of one buffer for as long as that item can be sampled.
///
/// A key has 32 bits of slot, 20 of generation, 12 of the buffer's tag. A key whose item was
/// evicted or removed is *stale*: it never names a later item in the same slot. (After 2^20 reuses
/// of its chunk a slot has the same generation again: do not keep a key longer than that.)
struct ItemKey {
  std::uint64_t bits = 0;  ///< Slot, generation and tag, from the lowest bit on.

  /// The number of the item's row among the rows of all chunks.
  [[nodiscard]] constexpr std::uint32_t slot() const noexcept {
    return static_cast<std::uint32_t>(bits);
  }
  /// A number that rises with each reuse of the row, modulo 2^20.
  [[nodiscard]] constexpr std::uint32_t generation() const noexcept {
    return static_cast<std::uint32_t>(bits >> 32U) & kGenerationMask;
  }
  /// `Options::key_tag` of the item's buffer.
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

/// Stands in place of a raw priority for an item that was committed without a priority, so the
/// selector chooses its weight. Raw priorities are at least 0.
inline constexpr float kInitialPriority = -2.0F;

/// Whether an item begins in a row with this priority. A row without an item has a number below 0
/// other than kInitialPriority.
[[nodiscard]] constexpr bool is_item(float priority) noexcept {
  return priority >= 0.0F || priority == kInitialPriority;
}

/// The outcome of `SelectorHandle::update` and `ReplayBuffer::update`.
struct UpdateResult {
  std::size_t applied = 0;  ///< Keys whose item has the new value, repeated keys included.
  std::size_t stale = 0;    ///< Keys whose item was gone; nothing was written for them.
};

/// The totals over the items of one selector, at one moment.
struct SelectorTotals {
  /// Sum of the weights: an item of weight w is drawn with probability w / weight. For `Fifo`,
  /// `Lifo` and the heaps the sum is the number of items. The weights of `RankBased`, `Recency` and
  /// `Mixture` have a unit that changes from draw to draw.
  double weight = 0.0;
  /// The largest weight; 0 without items. `RankBased` and `MaxHeap` give the largest priority
  /// instead, `MinHeap` the largest priority ever seen, `Mixture` the largest weight of its
  /// proportional part before scaling, `Fifo` and `Lifo` 0.
  float largest = 0.0F;
  std::size_t items = 0;  ///< Items that can be drawn, those of weight 0 included.
};

}  // namespace reprise
