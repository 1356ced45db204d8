#pragma once

#include "training.hpp"

#include <deque>

namespace apex {

/// The steps of one environment whose items are still incomplete. From these steps an actor
/// computes the items' first priorities: as in Ape-X, absolute n-step TD errors by the actor's own
/// Q values.
class OpenSteps {
 public:
  /// Adds the step that is about to be committed. `value` is the Q value of its action; `reward` is
  /// scaled.
  void add(float value, float reward) { steps_.push_back({value, reward}); }

  /// Appends to `priorities` those of the `completing` oldest items, which the next commit
  /// completes, and drops their steps. Each return runs from the item's step over all later steps,
  /// and ends with `next_value`: the value of the state after them, or 0 after a termination.
  void decide(std::size_t completing, float discount, float next_value,
              std::vector<float>& priorities);

 private:
  struct Step {
    float value;
    float reward;
  };
  std::vector<Step> steps_;
};

/// Returns the epsilon of environment `index` of `count` environments: epsilon^(1 + exponent *
/// index / (count - 1)), as in Horgan et al., "Distributed Prioritized Experience Replay" (2018).
[[nodiscard]] float exploration(const Options& options, std::size_t index, std::size_t count);

/// The environments of one actor thread.
///
/// Thread safety: one thread.
class Actor {
 public:
  Actor(Job& job, std::size_t index);

  /// Plays until the buffer is closed.
  void run();

 private:
  struct Environment {
    float epsilon;
    bool scored;  ///< Whether its returns are recorded, because it explores least.
    float episode_return = 0.0F;
    OpenSteps open{};
  };

  void step();
  void decide_priorities();
  /// Begins an episode in each environment whose episode has ended; returns whether any had.
  bool begin_episodes();

  Job& job_;
  Policy policy_;
  Random random_;
  reprise::VectorWriter writers_;
  // The containers from here to `ends_` have an element, or a row of values, for each environment.
  std::deque<LunarLander> landers_;
  std::vector<Environment> environments_;
  std::vector<float> observations_;
  std::vector<float> values_;  // Action values of the observations that the next step acts on.
  std::vector<float> next_values_;
  std::vector<std::int32_t> actions_;
  std::vector<float> rewards_;
  std::vector<reprise::End> ends_;
  std::vector<float> priorities_;  // Priorities of the items that the next commit completes.
};

/// Plays greedy episodes, each in an environment with its own seed; returns their mean return.
[[nodiscard]] float evaluate(Policy& policy, Random& seeds, std::size_t episodes);

}  // namespace apex
