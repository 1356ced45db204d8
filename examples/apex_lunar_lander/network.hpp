#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <mutex>

namespace apex {

struct NetworkShape {
  std::int64_t observations;
  std::int64_t hidden;  ///< Width of both hidden layers.
  std::int64_t actions;
};

/// A dueling Q network (Wang et al., 2016): two hidden layers, then one linear head of 1 value and
/// one advantage per action.
class NetworkImpl : public torch::nn::Module {
 public:
  explicit NetworkImpl(const NetworkShape& network_shape)
      : shape(network_shape),
        first_(register_module("first", torch::nn::Linear(shape.observations, shape.hidden))),
        second_(register_module("second", torch::nn::Linear(shape.hidden, shape.hidden))),
        head_(register_module("head", torch::nn::Linear(shape.hidden, 1 + shape.actions))) {}

  const NetworkShape shape;

  /// Action values [B, actions] of observations [B, observations].
  torch::Tensor forward(const torch::Tensor& observations) {
    const torch::Tensor hidden = torch::relu(second_(torch::relu(first_(observations))));
    const torch::Tensor head = head_(hidden);
    const torch::Tensor advantages = head.narrow(1, 1, head.size(1) - 1);
    return head.narrow(1, 0, 1) + advantages - advantages.mean(1, true);
  }

 private:
  torch::nn::Linear first_;
  torch::nn::Linear second_;
  torch::nn::Linear head_;
};
TORCH_MODULE(Network);

/// Moves the parameters of `to` that far towards those of `from`, which have the same shape.
inline void approach(const Network& to, const Network& from, double rate) {
  const torch::NoGradGuard no_graph;
  const auto source = from->parameters();
  const auto target = to->parameters();
  for (std::size_t i = 0; i < target.size(); ++i) {
    target[i].lerp_(source[i], rate);
  }
}

/// Where the learner leaves a copy of its network, so that actors never read what the optimizer is
/// writing.
///
/// Thread safety: every method from any thread; the lock is held for one copy of the parameters.
class NetworkBoard {
 public:
  explicit NetworkBoard(const NetworkShape& shape) : network_(shape) {}

  [[nodiscard]] const NetworkShape& shape() const { return network_->shape; }

  void publish(const Network& network) {
    const std::lock_guard lock(mutex_);
    approach(network_, network, 1.0);
    ++version_;
  }

  /// Copies the network if it is newer than `version`, and moves `version` on.
  bool fetch(const Network& to, std::uint64_t& version) const {
    const std::lock_guard lock(mutex_);
    if (version == version_) {
      return false;
    }
    approach(to, network_, 1.0);
    version = version_;
    return true;
  }

 private:
  mutable std::mutex mutex_;
  Network network_;            // Guarded by mutex_.
  std::uint64_t version_ = 0;  // Guarded by mutex_; 0 before the first publish.
};

}  // namespace apex
