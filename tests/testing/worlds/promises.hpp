#pragma once

#include <reprise/reprise.hpp>

#include <cstdint>
#include <map>
#include <optional>

namespace reprise::test {

/// What the documentation of the windows says of one episode: where its items begin, and how many
/// steps each has. The items of an episode that goes on are those that need no more of its steps.
/// `cut_off`: the episode was not ended by a commit.
[[nodiscard]] std::map<std::uint64_t, std::uint32_t> items_of(const Window& window,
                                                              std::uint64_t steps, bool ended,
                                                              bool cut_off);

/// What a limiter sees.
struct Counted {
  std::uint64_t items = 0;
  std::uint64_t counted = 0;  ///< Steps where the limiter counts steps, else `items`.
  std::uint64_t inserts = 0;
  std::uint64_t booked = 0;  ///< Inserts that writers may have booked and not used, at most.
  std::uint64_t samples = 0;
};

/// Whether the limiter lets `n` items be drawn; nothing where that depends on what was booked.
[[nodiscard]] std::optional<bool> lets_sample(const RateLimiter& limiter, const Counted& seen,
                                              std::uint64_t n);

}  // namespace reprise::test
