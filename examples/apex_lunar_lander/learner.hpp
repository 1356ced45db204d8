#pragma once

#include "network.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace apex {

struct LearnerOptions {
  double learning_rate = 1e-3;
  double gradient_clip = 10.0;  ///< Largest norm of a gradient.
  double target_rate = 0.005;   ///< How far the target network moves towards the online one.
  double reward_scale = 0.1;    ///< Makes returns of hundreds fit a network that starts near 0.
};

/// Double DQN (van Hasselt et al., 2016) with a Huber loss and Adam (Kingma and Ba, 2015).
///
/// Thread safety: one thread at a time.
class Learner {
 public:
  Learner(const NetworkShape& shape, const LearnerOptions& options, std::uint64_t seed);

  /// One update on a batch of B items; gives their absolute TD errors, valid until the next.
  std::span<const float> step(std::span<float> now, std::span<std::int32_t> actions,
                              std::span<float> returns, std::span<float> discounts,
                              std::span<float> next, std::span<float> weights);

  /// What has been learned so far; the next step changes it.
  [[nodiscard]] const Network& network() const { return online_; }

  /// Both networks and Adam's moments.
  [[nodiscard]] std::vector<std::byte> save() const;
  /// Goes on from there. Throws `std::runtime_error` unless it is of a network of this shape.
  void load(std::span<const std::byte> saved);

 private:
  LearnerOptions options_;
  Network online_;
  Network target_;
  torch::optim::Adam adam_;
  torch::Tensor errors_;
};

}  // namespace apex
