#pragma once

#include "program/options.hpp"
#include "program/tally.hpp"

namespace stress {

/// Runs the load that the options describe, and adds its results to `tally`. Throws
/// `std::invalid_argument` for options that only the buffer can check.
void run(const Options& options, Tally& tally);

void print_summary(const Tally& tally);

}  // namespace stress
