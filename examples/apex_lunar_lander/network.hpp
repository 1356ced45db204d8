#pragma once

// Includes only the needed headers of torch, because <torch/torch.h> takes twice as long to
// compile.
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cstddef>
#include <cstdint>

namespace apex {

/// A dueling Q network (Wang et al., 2016): two hidden layers of `width` units, then one linear
/// layer with a value and an advantage of each action.
class NetworkImpl : public torch::nn::Module {
 public:
  NetworkImpl(std::int64_t observations, std::int64_t width, std::int64_t actions)
      : first_(register_module("first", torch::nn::Linear(observations, width))),
        second_(register_module("second", torch::nn::Linear(width, width))),
        head_(register_module("head", torch::nn::Linear(width, 1 + actions))) {}

  /// Returns the action values [B, actions] of observations [B, observations].
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

/// Moves the parameters of `to` by the share `rate` towards those of `from`, of the same shape.
inline void approach(const Network& to, const Network& from, double rate) {
  const torch::NoGradGuard no_graph;
  const auto source = from->parameters();
  const auto target = to->parameters();
  for (std::size_t i = 0; i < target.size(); ++i) {
    target[i].lerp_(source[i], rate);
  }
}

}  // namespace apex
