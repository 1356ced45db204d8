#pragma once

#include "network.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace apex {

struct LearnerOptions {
  double learning_rate = 1e-3;
  double final_learning_rate = 1e-3;  ///< Reached, linearly, after `decay_updates`.
  std::size_t decay_updates = 10'000;
  double gradient_clip = 10.0;  ///< Largest norm of a gradient.
  double target_rate = 0.005;   ///< How far the target network moves towards the online one.
  float reward_scale = 0.1F;    ///< Makes returns of hundreds fit a network that starts near 0.
};

/// Double DQN (van Hasselt et al., 2016) with a Huber loss and Adam (Kingma and Ba, 2015).
///
/// All parameters are views of one flat tensor, so that clipping, Adam, the target's average and
/// publishing are a few operations on one vector instead of as many per layer.
///
/// Thread safety: one thread at a time.
class Learner {
 public:
  Learner(const NetworkShape& shape, const LearnerOptions& options, std::uint64_t seed);
  ~Learner();
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  /// One update on a batch of B items; gives their absolute TD errors, valid until the next.
  std::span<const float> step(std::span<float> now, std::span<std::int32_t> actions,
                              std::span<float> returns, std::span<float> discounts,
                              std::span<float> next, std::span<float> weights);

  /// The online network's parameters, current until the next step.
  [[nodiscard]] std::span<const float> parameters() const;

  /// All that a learner has learned: both networks' parameters, Adam's moments, the updates so far.
  [[nodiscard]] std::vector<std::byte> save() const;
  /// Goes on from there. Throws `std::runtime_error` unless it is of a network of this shape.
  void load(std::span<const std::byte> saved);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace apex
