#pragma once

#include "options.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace apex {

class Network;

/// Double DQN (van Hasselt et al., 2016) with a Huber loss and Adam (Kingma and Ba, 2015). Only
/// learner.cpp includes torch.
///
/// Thread safety: one thread at a time. Policies may be used in other threads meanwhile.
class Learner {
 public:
  explicit Learner(const Options& options);
  ~Learner();

  /// Makes one update on a batch. Returns its absolute TD errors, valid until the next call.
  std::span<const float> step(std::span<float> now, std::span<std::int32_t> actions,
                              std::span<float> returns, std::span<float> discounts,
                              std::span<float> next, std::span<float> weights);

  /// Copies the network for policies, so that no policy reads parameters while Adam writes them.
  void publish();

  /// Returns both networks and Adam's moments as bytes.
  [[nodiscard]] std::string save() const;
  /// Restores the networks and moments that `save` returned, and publishes the network. Throws if
  /// the networks have another shape.
  void load(std::span<const std::byte> saved);

 private:
  friend class Policy;
  struct State;
  std::unique_ptr<State> state_;
};

/// A copy of the network that a learner published, for one thread that acts by it.
///
/// Thread safety: one thread at a time. The learner has to outlive the policy.
class Policy {
 public:
  explicit Policy(const Learner& learner);
  ~Policy();

  /// Copies the newest published network. Returns false if this policy already had that network.
  bool refresh();

  /// Fills `values` [n, actions] with the action values of `observations` [n, observations].
  void evaluate(std::span<float> observations, std::span<float> values);

 private:
  Learner::State& learner_;
  std::unique_ptr<Network> network_;
  std::uint64_t version_ = 0;  // 0: no network has been copied yet.
};

/// Makes torch and BLAS use one thread, because the matrices are too small to share out and the
/// actors need the other cores. Call it in every thread that learns or acts.
void use_one_tensor_thread();

}  // namespace apex
