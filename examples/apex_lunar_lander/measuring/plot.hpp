#pragma once

#include "training.hpp"

#include <string>

namespace apex {

/// Draws the learning curve and both throughputs over time with gnuplot, as PNG if the path ends
/// in .png, else as SVG. Throws `std::runtime_error` if gnuplot is missing or fails.
void draw_plot(const std::string& path, const Options& options, const Result& result);

}  // namespace apex
