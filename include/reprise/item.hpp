#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace reprise {

/// Names one item of one buffer for as long as that item can be sampled.
///
/// 32 bits of slot, 20 of generation, 12 of the buffer's tag. A key whose item was evicted or
/// removed is *stale*: it never names the item that took its place. (The generation of a slot
/// returns after 2^20 reuses of its chunk: a key must not be kept longer than that.)
struct ItemKey {
  std::uint64_t bits = 0;  ///< Slot, generation and tag, from the lowest bit on.

  /// The number of the item's row.
  [[nodiscard]] constexpr std::uint32_t slot() const noexcept {
    return static_cast<std::uint32_t>(bits);
  }
  /// How often the row was reused, modulo 2^20.
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

/// The mark, in place of a raw priority, of an item whose weight the selector decides. Raw
/// priorities are at least 0.
inline constexpr float kInitialPriority = -2.0F;

/// Whether a row with this priority or mark begins an item. Rows that begin none have other marks.
[[nodiscard]] constexpr bool is_item(float priority) noexcept {
  return priority >= 0.0F || priority == kInitialPriority;
}

/// The outcome of `SelectorHandle::update` and `ReplayBuffer::update`.
struct UpdateResult {
  std::size_t applied = 0;  ///< Keys whose item has the new value, repeated keys included.
  std::size_t stale = 0;    ///< Keys whose item was gone; nothing was written.
};

/// What the items of one selector add up to, at one moment.
struct SelectorTotals {
  /// Sum of the weights: an item of weight w is drawn with probability w / weight. For `Fifo`,
  /// `Lifo` and the heaps it is the number of items. `RankBased`, `Recency` and `Mixture` weigh in
  /// a unit that changes from draw to draw.
  double weight = 0.0;
  /// The largest weight; 0 if there is none. For `RankBased` and `MaxHeap` it is the largest
  /// priority, for `MinHeap` the largest that there ever was, for `Mixture` the largest of the
  /// proportional part before it is scaled, and 0 for `Fifo` and `Lifo`.
  float largest = 0.0F;
  std::size_t items = 0;  ///< Items that can be drawn, those of weight 0 included.
};

}  // namespace reprise
