#pragma once

#include <reprise/rate_limiter.hpp>

#include "testing/test.hpp"

namespace reprise::test {

/// The counts on which a limiter bases its decision.
struct Counted {
  std::uint64_t items = 0;
  std::uint64_t counted = 0;  ///< The number of steps if the limiter counts steps, else `items`.
  std::uint64_t inserts = 0;
  /// An upper bound of the inserts that writers have booked and not used.
  std::uint64_t booked = 0;
  std::uint64_t samples = 0;
};

/// Whether the limiter lets `n` items be drawn; none if that depends on the booked inserts.
[[nodiscard]] inline std::optional<bool> lets_sample(const RateLimiter& limiter,
                                                     const Counted& seen, std::uint64_t n) {
  if (std::holds_alternative<Unlimited>(limiter)) {
    return true;
  }
  if (std::holds_alternative<Queue>(limiter)) {
    return seen.items >= n;
  }
  if (const auto* const min_size = std::get_if<MinSize>(&limiter)) {
    return seen.counted >= min_size->items;
  }
  const auto& ratio = std::get<SampleToInsertRatio>(limiter);
  if (seen.counted < ratio.min_size) {
    return false;
  }
  const auto within = [&](std::uint64_t inserts) {
    const auto due = static_cast<double>(inserts) - static_cast<double>(ratio.min_size);
    return static_cast<double>(seen.samples + n) - ratio.samples_per_insert * due <=
           ratio.error_buffer;
  };
  if (within(seen.inserts)) {
    return true;
  }
  return within(seen.inserts + seen.booked) ? std::nullopt : std::optional(false);
}

}  // namespace reprise::test
