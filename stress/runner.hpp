#pragma once

#include "options.hpp"
#include "tally.hpp"

namespace stress {

/// One run with the load that the options describe.
Tally run(const Options& options);

}  // namespace stress
