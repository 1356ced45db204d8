#pragma once

#include <reprise/rate_limiter.hpp>

#include "testing/test.hpp"

namespace reprise::test {

/// The counts on which a limiter bases its decision.
struct LimiterCounts {
  std::uint64_t items = 0;
  std::uint64_t items_or_steps = 0;  ///< The number of steps if the limiter counts steps.
  std::uint64_t inserts = 0;
  /// An upper bound of the inserts that writers have booked and not used.
  std::uint64_t booked = 0;
  std::uint64_t samples = 0;
};

/// Whether the limiter lets `n` items be drawn; no value if that depends on the booked inserts.
[[nodiscard]] inline std::optional<bool> lets_sample(const RateLimiter& limiter,
                                                     const LimiterCounts& counts, std::uint64_t n) {
  if (std::holds_alternative<Unlimited>(limiter)) {
    return true;
  }
  if (std::holds_alternative<Queue>(limiter)) {
    return counts.items >= n;
  }
  if (const auto* const min_size = std::get_if<MinSize>(&limiter)) {
    return counts.items_or_steps >= min_size->items;
  }
  const auto& ratio = std::get<SampleToInsertRatio>(limiter);
  if (counts.items_or_steps < ratio.min_size) {
    return false;
  }
  const auto within = [&](std::uint64_t inserts) {
    const auto due = static_cast<double>(inserts) - static_cast<double>(ratio.min_size);
    return static_cast<double>(counts.samples + n) - ratio.samples_per_insert * due <=
           ratio.error_buffer;
  };
  if (within(counts.inserts)) {
    return true;
  }
  return within(counts.inserts + counts.booked) ? std::nullopt : std::optional(false);
}

}  // namespace reprise::test
