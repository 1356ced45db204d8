#pragma once

#include "options.hpp"
#include "tally.hpp"

namespace stress {

/// Prints what was done and found. stress/prove reads the text.
void print_summary(const Options& options, const Tally& tally);

}  // namespace stress
