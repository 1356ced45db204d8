// Repeats the experiment by which Schaul et al. ("Prioritized Experience Replay", 2016, section 3
// and appendix B.1) show how much the choice of transitions matters: the number of Q-learning
// updates until the values of a Blind Cliffwalk are known, against the number of transitions in the
// buffer.
//
//   blind_cliffwalk [STATES [FILE.svg]]
//
// STATES is the size of the largest cliffwalk, 6 to 16 (the default). Exits with 0 if the choices
// rank as in the paper, with slopes like the paper's, and the picture is written.
#include "cliffwalk.hpp"
#include "picture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kRuns = 11;

struct Case {
  Features features;
  Choice choice;
};
/// The cases of the paper's figure 2: the first three of its left panel, the others of its right.
constexpr std::array kCases = {
    Case{Features::Tabular, Uniform},     Case{Features::Tabular, Oracle},
    Case{Features::Tabular, Greedy},      Case{Features::Linear, Uniform},
    Case{Features::Linear, Oracle},       Case{Features::Linear, RankBased},
    Case{Features::Linear, Proportional},
};
using Updates = std::array<double, kCases.size()>;

/// Learns a cliffwalk in each case; returns the number of updates of each.
Updates run(std::size_t states, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Memory memory(states, random);
  const QFunction table(states, Features::Tabular, random);
  const QFunction linear(states, Features::Linear, random);
  Updates updates{};
  for (std::size_t i = 0; i < kCases.size(); ++i) {
    const QFunction& q = kCases.at(i).features == Features::Tabular ? table : linear;
    updates.at(i) = static_cast<double>(memory.updates_to_learn(kCases.at(i).choice, q, seed + i));
  }
  return updates;
}

/// Returns the curves of the cases [first, last). `runs` has, for each number of states, all runs.
std::vector<Curve> curves(const std::vector<std::vector<Updates>>& runs, std::size_t first,
                          std::size_t last) {
  static constexpr std::array kNames = {"uniform", "oracle", "greedy", "rank-based",
                                        "proportional"};
  static constexpr std::array kColours = {"#222222", "#17a2c8", "#2ca02c", "#d62728", "#1f4fb4"};
  std::vector<Curve> curves_of_cases;
  for (std::size_t i = first; i < last; ++i) {
    const Choice choice = kCases.at(i).choice;
    Curve& curve = curves_of_cases.emplace_back();
    curve.choice = kNames.at(choice);
    curve.colour = kColours.at(choice);
    for (const std::vector<Updates>& runs_of_size : runs) {
      std::vector<double> sorted;
      for (const Updates& updates : runs_of_size) {
        sorted.push_back(updates.at(i));
      }
      std::ranges::sort(sorted);
      curve.fewest.push_back(sorted.front());
      curve.median.push_back(sorted.at(sorted.size() / 2));
      curve.most.push_back(sorted.back());
    }
  }
  return curves_of_cases;
}

/// Fits updates ~ transitions^slope to the larger half of the sizes, by least squares of
/// logarithms.
double slope(const std::vector<double>& transitions, const std::vector<double>& updates) {
  const std::size_t first = transitions.size() / 2;
  const auto count = static_cast<double>(transitions.size() - first);
  double x_mean = 0.0;
  double y_mean = 0.0;
  for (std::size_t i = first; i < transitions.size(); ++i) {
    x_mean += std::log10(transitions[i]) / count;
    y_mean += std::log10(updates[i]) / count;
  }
  double covariance = 0.0;
  double variance = 0.0;
  for (std::size_t i = first; i < transitions.size(); ++i) {
    const double x = std::log10(transitions[i]) - x_mean;
    covariance += x * (std::log10(updates[i]) - y_mean);
    variance += x * x;
  }
  return covariance / variance;
}

/// Returns whether the curves are like the paper's: the first (uniform) grows about in proportion
/// to the transitions, the second (oracle) far more slowly, and at the end the others lie clearly
/// between these two. Adds the slopes to the panel's text.
bool check(Panel& panel, const std::vector<double>& transitions) {
  const std::vector<double>& uniform = panel.curves[0].median;
  const std::vector<double>& oracle = panel.curves[1].median;
  bool good = true;
  std::string slopes;
  for (const Curve& curve : panel.curves) {
    const double curve_slope = slope(transitions, curve.median);
    const double speed_up = uniform.back() / curve.median.back();
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%s%.2f", slopes.empty() ? "" : ", ", curve_slope);
    slopes += text.data();
    std::printf("  %-14s slope %.2f, %8.0f updates at the end; uniform takes %.0f times as many\n",
                curve.choice.c_str(), curve_slope, curve.median.back(), speed_up);
    if (&curve.median == &uniform) {
      good = good && curve_slope > 0.8;
    } else if (&curve.median == &oracle) {
      good = good && curve_slope < 0.5;
    } else {
      good = good && speed_up > 2.0 && curve.median.back() > 2.0 * oracle.back();
    }
  }
  panel.words.push_back("Slopes here, in the order above: " + slopes + ".");
  return good;
}

std::vector<Updates> all_runs(std::size_t states) {
  std::vector<std::future<Updates>> running;
  for (std::size_t seed = 0; seed < kRuns; ++seed) {
    running.push_back(std::async(std::launch::async, run, states, 1000 * seed + states));
  }
  std::vector<Updates> results;
  std::ranges::transform(running, std::back_inserter(results),
                         [](std::future<Updates>& run_result) { return run_result.get(); });
  return results;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t max_states = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : kMaxStates;
  if (max_states < 6 || max_states > kMaxStates) {
    std::fprintf(stderr, "blind_cliffwalk: STATES is %s; allowed: 6 to %zu\n", argv[1], kMaxStates);
    return 2;
  }
  std::vector<double> transitions;
  std::vector<std::vector<Updates>> runs;
  for (std::size_t states = 2; states <= max_states; ++states) {
    transitions.push_back(std::ldexp(2.0, static_cast<int>(states)) - 2.0);
    runs.push_back(all_runs(states));
  }
  std::vector<Panel> panels = {
      {.title = "Q in a table",
       .curves = curves(runs, 0, 3),
       .words = {"Schaul et al. (2016) say of theirs: exponential speed-ups by the",
                 "oracle, a substantial reduction by greedy choice."}},
      {.title = "Q as a linear function",
       .curves = curves(runs, 3, kCases.size()),
       .words = {"Schaul et al. (2016) say of theirs: large speed-ups over uniform by",
                 "both stochastic choices."}}};
  bool good = true;
  for (Panel& panel : panels) {
    std::puts(panel.title.c_str());
    good = check(panel, transitions) && good;
  }
  if (argc > 2) {
    std::ofstream file(argv[2]);
    file << picture("Blind Cliffwalk: updates to learn, median and range of 11 runs", transitions,
                    panels);
    good = file.flush().good() && good;
  }
  return good ? 0 : 1;
}
