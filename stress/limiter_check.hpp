#pragma once

#include "account.hpp"
#include "options.hpp"
#include "strategies.hpp"

#include <string>

namespace stress {

/// Describes how the account breaks the promise of the rate limiter; empty if it does not. Call it
/// while everybody stands still and everything is ingested.
[[nodiscard]] std::string broken_limit(const Strategies& strategies, const Options& options,
                                       const Account& account);

}  // namespace stress
