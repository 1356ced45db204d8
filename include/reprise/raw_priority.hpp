#pragma once

namespace reprise {

/// Marks among the raw priorities of a run of rows; every other priority is at least 0.
inline constexpr float kInitialPriority = -2.0F;  ///< An item; the selector decides its weight.

/// Whether an item begins with a row, by the row's priority or mark.
[[nodiscard]] constexpr bool is_item(float priority) noexcept {
  return priority >= 0.0F || priority == kInitialPriority;
}

}  // namespace reprise
