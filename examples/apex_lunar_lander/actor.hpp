#pragma once

#include <reprise/reprise.hpp>

#include "lunar_lander.hpp"
#include "n_step.hpp"
#include "network.hpp"
#include "options.hpp"
#include "parameter_board.hpp"
#include "random.hpp"
#include "replay_clock.hpp"
#include "scoreboard.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace apex {

/// The fields of a step.
struct Fields {
  reprise::Observation<float> state;
  reprise::ScalarColumn<std::int32_t> action;
  reprise::Reward reward;
};

/// What every actor works with; owned by the training run and outliving the actors.
struct Workplace {
  const Options& options;
  const Fields& fields;
  reprise::ReplayBuffer& replay;
  const ParameterBoard& board;
  Scoreboard& scores;
};

/// How much environment `index` of `count` explores: epsilon^(1 + exponent * index / (count - 1)),
/// Horgan et al., "Distributed Prioritized Experience Replay" (2018).
[[nodiscard]] float exploration(const Options& options, std::size_t index, std::size_t count);

/// One actor thread's environments, each with a writer of its own.
///
/// Thread safety: one thread.
class Actor {
 public:
  Actor(const Workplace& place, const NetworkShape& shape, std::size_t index);

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
    LunarLander::Outcome outcome;
    std::span<float> next;  ///< The writer's row for the next observation.
  };

  void begin_episode(std::size_t e);
  void choose_actions();
  void step_environments(ReplayClock& clock);
  /// False once the buffer is closed.
  bool commit_steps(ReplayClock& clock);
  bool commit(std::size_t e);
  [[nodiscard]] std::span<float> values(std::vector<float>& all, std::size_t e) const;

  Workplace place_;
  ActorNetwork network_;
  std::uint64_t version_ = 0;
  Random random_;
  std::deque<Environment> environments_;
  std::vector<float> observations_;  // [environments, observations]
  std::vector<float> now_values_;    // [environments, actions]
  std::vector<float> next_values_;   // [environments, actions]
};

}  // namespace apex
