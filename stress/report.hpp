#pragma once

#include "options.hpp"
#include "tally.hpp"

namespace stress {

/// What was done and found, in words. stress/prove reads it.
void print_summary(const Options& options, const Tally& tally);

}  // namespace stress
