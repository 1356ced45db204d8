#pragma once

#include "options.hpp"
#include "tally.hpp"

#include <span>
#include <string>

namespace stress {

/// Draws histograms of append and batch latencies with gnuplot, as PNG if the path ends in .png,
/// else as SVG. Throws `std::runtime_error` if gnuplot is missing or fails.
void draw_picture(const std::string& path, const Options& options, std::span<const Tally> tallies);

}  // namespace stress
