#pragma once

#include "live_line.hpp"
#include "options.hpp"
#include "tally.hpp"

namespace stress {

/// One run of one implementation with the load that the options describe.
Tally run(const Options& options, Implementation implementation, LiveLine& live);

}  // namespace stress
