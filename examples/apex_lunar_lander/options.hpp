#pragma once

#include "learner.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace apex {

/// Everything that the command line can set, with the defaults that solve LunarLander-v2.
struct Options {
  std::uint64_t seed = 0;
  double time_limit_seconds = 300.0;  ///< Of training, evaluations included.

  std::size_t actors = 2;         ///< Threads.
  std::size_t environments = 16;  ///< Per actor.
  double epsilon = 0.4;           ///< Of the most curious environment.
  double epsilon_exponent = 7.0;  ///< The greediest explores with epsilon^(1 + exponent).
  std::size_t fetch_steps = 32;   ///< Steps of an actor between looks for new parameters.

  std::int64_t hidden = 64;
  LearnerOptions learner;
  std::size_t batch = 64;
  std::size_t publish_updates = 16;  ///< Updates between publications of the parameters.

  float discount = 0.99F;
  std::uint32_t n_step = 3;
  float alpha = 0.6F;
  float beta = 0.4F;
  std::size_t capacity_steps = std::size_t{1} << 18U;
  std::size_t warmup_steps = 5'000;  ///< Items before learning starts.
  double samples_per_insert = 4.0;
  double slack_steps = 16.0;  ///< Of each environment, by which inserts may leave that ratio.

  float target_score = 200.0F;  ///< Mean return that counts as solved.
  float screen_score =
      210.0F;  ///< Recent training mean, and screening mean, before the final test.

  std::string checkpoint_path;      ///< Directory to save to while training; empty: none.
  std::string resume_path;          ///< Directory to go on from, and to save to; empty: begin anew.
  double checkpoint_seconds = 5.0;  ///< Between saves.

  /// Where metrics for Prometheus are served, to this machine alone; 0: a free port.
  std::optional<std::uint16_t> metrics_port;
  std::string json_path;
  std::string plot_path = "apex_lunar_lander.svg";
};

/// Reads the command line. Where that ends the program (help, bad input), `exit_code` says how.
struct ParsedOptions {
  Options options;
  int exit_code = -1;  ///< Negative: go on.
};
[[nodiscard]] ParsedOptions parse_options(int argc, char** argv);

}  // namespace apex
