#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace apex {

/// Options of the command line, which main.cpp explains. The defaults solve the task.
struct Options {
  std::uint64_t seed = 0;
  double time_limit_seconds = 300.0;
  float target_score = 200.0F;
  float screen_score = 210.0F;
  std::string json_path;        // Empty: no file.
  std::string checkpoint_path;  // Empty: no checkpoints.
  std::string resume_path;      // Empty: a new run.
  double checkpoint_seconds = 5.0;

  std::size_t actors = 2;
  std::size_t environments = 16;
  double epsilon = 0.4;
  double epsilon_exponent = 7.0;
  std::size_t fetch_steps = 32;

  std::int64_t hidden = 64;
  double learning_rate = 1e-3;
  double gradient_clip = 10.0;
  double target_rate = 0.005;
  double reward_scale = 0.1;  // Makes returns of hundreds fit a network that starts near 0.
  std::size_t batch = 64;
  std::size_t publish_updates = 16;

  float discount = 0.99F;
  std::uint32_t n_step = 3;
  float alpha = 0.6F;
  float beta = 0.4F;
  std::size_t capacity_steps = std::size_t{1} << 18U;
  std::size_t warmup_steps = 5'000;
  double samples_per_insert = 4.0;
  double slack_steps = 16.0;
};

}  // namespace apex
