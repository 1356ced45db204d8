#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace reprise::base {

/// Random numbers: xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number
/// generators", 2021), its state filled from one seed by splitmix64 (Steele, Lea and Flood, "Fast
/// splittable pseudorandom number generators", 2014).
///
/// One thread at a time. Copying copies the state: both then give the same numbers.
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) noexcept {
    for (std::uint64_t& word : state_) {
      seed += 0x9E3779B97F4A7C15U;
      std::uint64_t mixed = seed;
      mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9U;
      mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBU;
      word = mixed ^ (mixed >> 31U);
    }
  }

  /// 64 uniform bits.
  constexpr std::uint64_t next() noexcept {
    const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t shifted = state_[1] << 17U;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, 1), a multiple of 2^-53.
  constexpr double uniform() noexcept { return static_cast<double>(next() >> 11U) * 0x1p-53; }

  /// The state, with which the same numbers continue later. It is never all zero.
  using State = std::array<std::uint64_t, 4>;
  [[nodiscard]] constexpr State state() const noexcept {
    return {state_[0], state_[1], state_[2], state_[3]};
  }
  explicit constexpr Random(const State& state) noexcept {
    std::copy(state.begin(), state.end(), state_);
  }

  friend constexpr bool operator==(const Random&, const Random&) = default;

 private:
  std::uint64_t state_[4] = {};
};

}  // namespace reprise::base
