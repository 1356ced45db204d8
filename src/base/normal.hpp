#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

// A thread may read and write denormal numbers, those below 2^-126, as 0. What one thread stores as
// a weight above 0 would be 0 for another, so there are none among weights. These functions look at
// bits, because such a thread compares denormal numbers as 0 too.

namespace reprise::base {

/// The number itself, but 2^-126 for a denormal one and 0 for one that is not above 0; NaN may
/// stay. Written so that compilers use vectors in loops.
[[nodiscard]] inline float normal_or_0(float value) noexcept {
  constexpr auto kSmallest = std::bit_cast<std::int32_t>(std::numeric_limits<float>::min());
  const auto bits = std::bit_cast<std::int32_t>(value);
  return std::bit_cast<float>(bits > 0 ? std::max(bits, kSmallest) : 0);
}

/// Whether a number is finite and at least 0; of -0 it is true. NaN, infinity and negative numbers
/// have larger bits than the largest float.
[[nodiscard]] inline bool finite_and_not_negative(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<bool>(
      static_cast<int>(bits <= std::bit_cast<std::uint32_t>(std::numeric_limits<float>::max())) |
      static_cast<int>(bits == std::bit_cast<std::uint32_t>(-0.0F)));
}

}  // namespace reprise::base
