#pragma once

#include <string>
#include <vector>

/// The number of updates that one choice of transitions needs, for each number of states.
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
  /// Lines of text below the panel.
  std::vector<std::string> words;
};

/// Returns the panels side by side as SVG, with logarithmic axes. Thick lines are medians; faint
/// lines are the fewest and the most updates. Every curve has as many points as `transitions`.
std::string picture(const std::string& title, const std::vector<double>& transitions,
                    const std::vector<Panel>& panels);
