#pragma once

#include "options.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace apex {

class Network;

/// Double DQN (van Hasselt et al., 2016) with a Huber loss and Adam (Kingma and Ba, 2015). All of
/// torch is behind it, in learner.cpp.
///
/// Thread safety: one thread at a time; policies, in any thread, beside it.
class Learner {
 public:
  explicit Learner(const Options& options);
  ~Learner();

  /// One update on a batch of B items; gives their absolute TD errors, valid until the next.
  std::span<const float> step(std::span<float> now, std::span<std::int32_t> actions,
                              std::span<float> returns, std::span<float> discounts,
                              std::span<float> next, std::span<float> weights);

  /// Leaves a copy of the network for policies, so that they never read what Adam is writing.
  void publish();

  /// Both networks and Adam's moments.
  [[nodiscard]] std::string save() const;
  /// Goes on from there, and publishes it. Throws if it is of networks of another shape.
  void load(std::span<const std::byte> saved);

 private:
  friend class Policy;
  struct State;
  std::unique_ptr<State> state_;
};

/// A copy of the network that a learner published, for one thread that acts by it.
///
/// Thread safety: one thread at a time. The learner outlives it.
class Policy {
 public:
  explicit Policy(const Learner& learner);
  ~Policy();

  /// Copies the newest network; false if it is the one that is here already.
  bool refresh();

  /// Fills `values` [n, actions] with the action values of `observations` [n, observations].
  void evaluate(std::span<float> observations, std::span<float> values);

 private:
  Learner::State& learner_;
  std::unique_ptr<Network> network_;
  std::uint64_t version_ = 0;  // 0 before the first that was published.
};

/// One thread of torch and of BLAS for each thread of ours: the matrices are too small to share,
/// and the actors need the other cores. Call it in every thread that learns or acts.
void use_one_tensor_thread();

}  // namespace apex
