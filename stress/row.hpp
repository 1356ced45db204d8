#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace stress {

/// splitmix64's finalizer (Steele, Lea and Flood, 2014): every output bit depends on every input
/// bit.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

/// A stream of random numbers for one thread.
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) noexcept : state_(mix(seed)) {}
  constexpr std::uint64_t next() noexcept { return mix(state_ += 0x9E3779B97F4A7C15U); }
  constexpr std::uint64_t below(std::uint64_t bound) noexcept { return next() % bound; }
  constexpr bool one_in(std::uint64_t n) noexcept { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

/// The identity of an observation.
struct Identity {
  std::uint32_t writer = 0;
  std::uint32_t episode = 0;  ///< Number of the episode of this writer, from 0.
  /// Position in the episode. The position of the final observation is the episode's length.
  std::uint32_t position = 0;
  std::uint32_t round = 0;  ///< Number of the buffer that it was written to.
  std::uint64_t episode_id = 0;

  friend bool operator==(const Identity&, const Identity&) = default;

  [[nodiscard]] std::uint64_t hash() const noexcept {
    return mix(std::uint64_t{writer} << 32U | episode) ^
           mix((std::uint64_t{round} << 32U | position) + 0x51ED270B27A30133U);
  }
};

/// An observation holds three words of identity and one of hash.
inline constexpr std::size_t kMinObservationBytes = 32;

namespace detail {

inline std::uint64_t word(const std::uint8_t* bytes, std::size_t i) noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes + 8 * i, 8);
  return value;
}

/// Hash of the first `words` words. Four lanes, because each multiplication waits for the last of
/// its lane.
inline std::uint64_t hash_words(const std::uint8_t* bytes, std::size_t words) noexcept {
  std::uint64_t lane[4] = {1, 2, 3, 4};
  std::size_t i = 0;
  for (; i + 4 <= words; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) {
      lane[k] = (lane[k] ^ word(bytes, i + k)) * 0x9FB21C651E98DF25U;
      lane[k] ^= lane[k] >> 32U;
    }
  }
  for (; i < words; ++i) {
    lane[0] = (lane[0] ^ word(bytes, i)) * 0x9FB21C651E98DF25U;
    lane[0] ^= lane[0] >> 32U;
  }
  return mix(lane[0] ^ (lane[1] << 1U) ^ (lane[2] << 2U) ^ (lane[3] << 3U) ^ words);
}

}  // namespace detail

/// Fills an observation: identity, filling that differs from row to row, and a hash of all before
/// it.
inline void render(const Identity& id, std::span<std::uint8_t> to) noexcept {
  const std::uint64_t head[3] = {std::uint64_t{id.writer} << 32U | id.episode,
                                 std::uint64_t{id.round} << 32U | id.position, id.episode_id};
  std::memcpy(to.data(), head, sizeof head);
  const std::size_t words = to.size() / 8 - 1;
  const std::uint64_t base = head[0] * 0xD1342543DE82EF95U + head[1];
  for (std::size_t i = 3; i < words; ++i) {
    const std::uint64_t filling = base + i * 0x2545F4914F6CDD1DU;
    std::memcpy(to.data() + 8 * i, &filling, 8);
  }
  const std::uint64_t hash = detail::hash_words(to.data(), words);
  const std::size_t rest = to.size() - 8 * words - 8;
  std::memcpy(to.data() + 8 * words, &hash, 8);
  std::memcpy(to.data() + 8 * words + 8, &hash, rest);
}

/// The identity given to `render`, or nothing if a single bit differs from its output.
[[nodiscard]] inline std::optional<Identity> recognise(
    std::span<const std::uint8_t> from) noexcept {
  const std::size_t words = from.size() / 8 - 1;
  const std::uint64_t hash = detail::hash_words(from.data(), words);
  const std::size_t rest = from.size() - 8 * words - 8;
  if (std::memcmp(from.data() + 8 * words, &hash, 8) != 0 ||
      std::memcmp(from.data() + 8 * words + 8, &hash, rest) != 0) {
    return std::nullopt;
  }
  const std::uint64_t writer = detail::word(from.data(), 0);
  const std::uint64_t place = detail::word(from.data(), 1);
  return Identity{static_cast<std::uint32_t>(writer >> 32U), static_cast<std::uint32_t>(writer),
                  static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32U),
                  detail::word(from.data(), 2)};
}

}  // namespace stress
