#pragma once

#include <reprise/metrics.hpp>
#include <reprise/reprise.hpp>

#include "learner.hpp"
#include "lunar_lander.hpp"
#include "measuring/replay_clock.hpp"
#include "measuring/scoreboard.hpp"
#include "n_step.hpp"
#include "network.hpp"
#include "options.hpp"
#include "random.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>

namespace apex {

/// The fields of a step.
struct Fields {
  reprise::Observation<float> state;
  reprise::ScalarColumn<std::int32_t> action;
  reprise::Reward reward;
};

/// What learner and actors work with; owned by the training run and outliving them.
struct Workplace {
  const Options& options;
  const Fields& fields;
  reprise::ReplayBuffer& replay;
  NetworkBoard& board;
  Scoreboard& scores;
  reprise::metrics::Meter* meter = nullptr;  ///< Null: calls are not measured.
};

/// Learns until the buffer is closed; calls `between` between two updates.
ReplayTime learn(const Workplace& place, Learner& learner, const std::function<void()>& between);

/// How much environment `index` of `count` explores: epsilon^(1 + exponent * index / (count - 1)),
/// Horgan et al., "Distributed Prioritized Experience Replay" (2018).
[[nodiscard]] float exploration(const Options& options, std::size_t index, std::size_t count);

/// One actor thread's environments, each with a writer of its own.
///
/// Thread safety: one thread.
class Actor {
 public:
  Actor(const Workplace& place, std::size_t index);

  /// Plays until the buffer is closed.
  ReplayTime run();

 private:
  struct Environment {
    Environment(const Workplace& place, std::uint64_t seed, float exploration_rate, bool is_scored);

    LunarLander lander;
    reprise::Writer writer;
    OpenSteps open;
    float epsilon;
    bool scored;  ///< Among the greediest, whose returns say how good the policy is.
    float episode_return = 0.0F;
    std::int32_t action = 0;
    LunarLander::Outcome outcome{.end = reprise::End::Truncated};  ///< Of no episode at first.
    std::span<float> next;  ///< The writer's row for the next observation.
  };

  /// False if no environment was at the end of an episode.
  bool begin_episodes();
  void step(ReplayClock& clock);
  /// False once the buffer is closed.
  bool commit(ReplayClock& clock, const torch::Tensor& next_values);
  [[nodiscard]] std::span<float> observation(std::size_t e);

  Workplace place_;
  Network network_;
  std::uint64_t version_ = 0;
  Random random_;
  std::deque<Environment> environments_;
  torch::Tensor observations_;  // [environments, observations]
  torch::Tensor values_;        // [environments, actions], of these observations
};

}  // namespace apex
