#pragma once

#include <cstddef>
#include <cstdint>

namespace apex {

/// Steele, Lea and Flood's SplitMix64 (2014): eight bytes of state, so that each environment can
/// own one, and the same numbers with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

  /// In [0, 1).
  float uniform() noexcept { return static_cast<float>(next() >> 40U) * 0x1.0p-24F; }

  /// In [low, high).
  float uniform(float low, float high) noexcept { return low + (high - low) * uniform(); }

  /// In [0, n); n is far below 2^32, so that the bias of the product is below 2^-32 * n.
  std::size_t below(std::size_t n) noexcept {
    return static_cast<std::size_t>(((next() >> 32U) * n) >> 32U);
  }

 private:
  std::uint64_t state_;
};

/// The seed of stream `stream` of a run: streams of one run, and runs of neighbouring seeds, share
/// nothing.
inline std::uint64_t stream_seed(std::uint64_t seed, std::uint64_t stream) noexcept {
  return Random(Random(seed).next() ^ (stream * 0xD1B54A32D192ED03U)).next();
}

}  // namespace apex
