#pragma once

#include <reprise/stats.hpp>

#include "measuring/evaluation.hpp"
#include "options.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace apex {

/// How training stands at one moment.
struct Snapshot {
  double seconds = 0.0;
  std::uint64_t environment_steps = 0;
  std::uint64_t learner_updates = 0;
  std::size_t resident_steps = 0;
  std::size_t episodes = 0;
  float mean_return = 0.0F;  ///< Of the greediest environments' last episodes.
};

struct Result {
  bool solved = false;
  double seconds = 0.0;  ///< Until solved or given up, evaluations included.
  Score final_score;
  std::size_t final_tests = 0;  ///< How often the final test was tried.
  double replay_share = 0.0;  ///< Of the working time of actors and learner, spent in replay calls.
  double waiting_share = 0.0;  ///< Of the time of actors and learner, spent waiting for each other.
  reprise::Stats replay;
  std::vector<Snapshot> history;
};

/// Trains until solved or out of time, and tells `observe` now and then how it goes.
///
/// Solved means: parameters that passed a screening of 20 greedy episodes also have a mean of at
/// least `target_score` over 100 others, on seeds that neither training nor screening has seen.
[[nodiscard]] Result train(const Options& options,
                           const std::function<void(const Snapshot&)>& observe);

}  // namespace apex
