#pragma once

#include "live_line.hpp"
#include "options.hpp"
#include "tally.hpp"

namespace stress {

/// Runs one implementation with the load that the options describe.
Tally run(const Options& options, Implementation implementation, LiveLine& live);

}  // namespace stress
