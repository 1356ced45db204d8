#pragma once

#include "base/check.hpp"

#include <cstddef>
#include <cstdint>

namespace reprise::base {

/// n / divisor, rounded up.
[[nodiscard]] constexpr std::size_t divide_up(std::size_t n, std::size_t divisor) noexcept {
  return n / divisor + (n % divisor != 0 ? 1 : 0);
}

/// Division by a divisor that is known only at run time and never changes, as one multiplication: n
/// / d = floor(n * ceil(2^64 / d) / 2^64) for all 32-bit n and d > 1 (Lemire, Kaser and Kurz,
/// "Faster remainder by direct computation", 2019, theorem 1).
class Divider {
 public:
  /// `divisor` is 2 to 2^32 - 1: the inverse of 1 would be 2^64, which 64 bits do not hold.
  explicit constexpr Divider(std::uint32_t divisor) noexcept
      : divisor_(divisor), inverse_(~std::uint64_t{0} / divisor + 1) {
    REPRISE_ASSERT(divisor > 1);
  }

  [[nodiscard]] constexpr std::uint32_t divisor() const noexcept { return divisor_; }

  [[nodiscard]] constexpr std::uint32_t quotient(std::uint32_t n) const noexcept {
    // cppcheck-suppress shiftTooManyBits  // Wide has 128 bits.
    return static_cast<std::uint32_t>((Wide{inverse_} * n) >> 64U);
  }
  [[nodiscard]] constexpr std::uint32_t remainder(std::uint32_t n,
                                                  std::uint32_t quotient) const noexcept {
    return n - quotient * divisor_;
  }

 private:
  __extension__ using Wide = unsigned __int128;
  std::uint32_t divisor_;
  std::uint64_t inverse_;
};

}  // namespace reprise::base
