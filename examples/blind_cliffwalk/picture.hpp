#pragma once

#include <string>
#include <vector>

/// Updates that one choice needs, by number of states.
struct Curve {
  std::string choice;
  std::string colour;
  std::vector<double> median;
  std::vector<double> fewest;
  std::vector<double> most;
};

struct Panel {
  std::string title;
  std::vector<Curve> curves;
  /// Lines below the panel.
  std::vector<std::string> words;
};

/// Draws the panels side by side as SVG, with logarithmic axes: medians as thick lines, the fewest
/// and the most as faint ones. Every curve has as many points as `transitions`.
std::string picture(const std::string& title, const std::vector<double>& transitions,
                    const std::vector<Panel>& panels);
