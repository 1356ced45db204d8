#pragma once

#include <reprise/options.hpp>

#include "program/options.hpp"
#include "program/strategies.hpp"

#include <string>

namespace stress {

/// The number of inserts that a writer books at a time (a block), 1 to 64. If possible, one block
/// of each writer takes at most half of the inserts that the limiter has room for.
[[nodiscard]] double block_size(const reprise::RateLimiter& limiter, double writers);

/// Describes how the counts exceed what the rate limiter allows; empty if they do not. Call it
/// while all threads stand still and everything is ingested.
[[nodiscard]] std::string limit_violation(const Strategies& strategies, const Options& options,
                                          const reprise::Stats& stats);

}  // namespace stress
