#pragma once

#include "training.hpp"

#include <deque>

namespace apex {

/// The steps of one environment whose items are not decided yet, with what an actor needs to give
/// those items their first priorities: absolute n-step TD errors by its own Q values, as in Ape-X.
class OpenSteps {
 public:
  /// Adds the step about to be committed: the value of its action, and the scaled reward.
  void add(float value, float reward) { steps_.push_back({value, reward}); }

  /// Appends the priorities of the `completing` oldest items, which are thereby decided. Each
  /// return runs from its step over all later ones and ends with `next_value`, the value of the
  /// state that they led to: 0 after a termination.
  void decide(std::size_t completing, float discount, float next_value,
              std::vector<float>& priorities);

 private:
  struct Step {
    float value;
    float reward;
  };
  std::vector<Step> steps_;
};

/// How much environment `index` of `count` explores: epsilon^(1 + exponent * index / (count - 1)),
/// Horgan et al., "Distributed Prioritized Experience Replay" (2018).
[[nodiscard]] float exploration(const Options& options, std::size_t index, std::size_t count);

/// One actor thread's environments.
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
    bool scored;  ///< Its returns show how good the policy is, because it is among the greediest.
    float episode_return = 0.0F;
    OpenSteps open{};
  };

  void step();
  void decide_priorities();
  /// Begins an episode wherever one has ended; false if none has.
  bool begin_episodes();

  Job& job_;
  Policy policy_;
  Random random_;
  reprise::VectorWriter writers_;
  // Each has a row for each environment.
  std::deque<LunarLander> landers_;
  std::vector<Environment> environments_;
  std::vector<float> observations_;
  std::vector<float> values_;  // Action values for the observation that was acted on.
  std::vector<float> next_values_;
  std::vector<std::int32_t> actions_;
  std::vector<float> rewards_;
  std::vector<reprise::End> ends_;
  std::vector<float> priorities_;  // Priorities of the items that the next commit decides.
};

/// Plays whole episodes greedily, each in a new environment with its own seed; returns their mean.
[[nodiscard]] float evaluate(Policy& policy, Random& seeds, std::size_t episodes);

}  // namespace apex
