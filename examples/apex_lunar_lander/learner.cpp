#include "learner.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace apex {
namespace {

constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kAdamEpsilon = 1e-8;

template <class T>
torch::Tensor view(std::span<T> data, at::IntArrayRef shape, at::ScalarType type) {
  return torch::from_blob(data.data(), shape, torch::TensorOptions(type));
}

std::int64_t signed_size(std::size_t size) {
  return static_cast<std::int64_t>(size);
}

/// The layers of one network as views of its flat parameters.
class Layers {
 public:
  Layers(const NetworkShape& shape, const torch::Tensor& flat) {
    for (const NetworkShape::Layer& layer : shape.layers()) {
      weights_.push_back(slice(flat, layer.weights, layer.inputs * layer.outputs)
                             .view({signed_size(layer.inputs), signed_size(layer.outputs)}));
      biases_.push_back(slice(flat, layer.biases, layer.outputs));
    }
  }

  [[nodiscard]] torch::Tensor values(const torch::Tensor& observations) const {
    torch::Tensor x = torch::addmm(biases_[0], observations, weights_[0]).relu_();
    x = torch::addmm(biases_[1], x, weights_[1]).relu_();
    x = torch::addmm(biases_[2], x, weights_[2]);
    const torch::Tensor value = x.narrow(1, 0, 1);
    const torch::Tensor advantages = x.narrow(1, 1, x.size(1) - 1);
    return advantages + (value - advantages.mean(1, true));
  }

  /// Makes the layers leaves of the graph whose gradients gather in `flat`.
  void track(const NetworkShape& shape, const torch::Tensor& flat) {
    const Layers gradients(shape, flat);
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      weights_[i] = weights_[i].detach().requires_grad_();
      weights_[i].mutable_grad() = gradients.weights_[i];
      biases_[i] = biases_[i].detach().requires_grad_();
      biases_[i].mutable_grad() = gradients.biases_[i];
    }
  }

 private:
  static torch::Tensor slice(const torch::Tensor& flat, std::size_t offset, std::size_t size) {
    return flat.narrow(0, signed_size(offset), signed_size(size));
  }

  std::vector<torch::Tensor> weights_;
  std::vector<torch::Tensor> biases_;
};

/// Uniform in +-1/sqrt(inputs), as torch's own linear layers start.
torch::Tensor initial_parameters(const NetworkShape& shape, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  torch::Tensor flat = torch::empty({signed_size(shape.parameters())});
  for (const NetworkShape::Layer& layer : shape.layers()) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(layer.inputs));
    flat.narrow(0, signed_size(layer.weights), signed_size((layer.inputs + 1) * layer.outputs))
        .uniform_(-bound, bound, generator);
  }
  return flat;
}

}  // namespace

class Learner::State {
 public:
  State(const NetworkShape& shape, const LearnerOptions& options, std::uint64_t seed)
      : options_(options),
        online_flat_(initial_parameters(shape, seed)),
        target_flat_(online_flat_.clone()),
        gradient_(torch::zeros_like(online_flat_)),
        first_moment_(torch::zeros_like(online_flat_)),
        second_moment_(torch::zeros_like(online_flat_)),
        online_(shape, online_flat_),
        target_(shape, target_flat_) {
    online_.track(shape, gradient_);
  }

  std::span<const float> step(const torch::Tensor& now, const torch::Tensor& actions,
                              const torch::Tensor& returns, const torch::Tensor& discounts,
                              const torch::Tensor& next, const torch::Tensor& weights) {
    const torch::Tensor targets = bootstrap(returns, discounts, next);
    const torch::Tensor chosen = online_.values(now).gather(1, actions.unsqueeze(1)).squeeze(1);
    gradient_.zero_();
    const torch::Tensor loss =
        (torch::huber_loss(chosen, targets, at::Reduction::None) * weights).mean();
    loss.backward();
    const torch::NoGradGuard no_graph;
    errors_ = (chosen - targets).abs_().contiguous();
    optimise();
    target_flat_.lerp_(online_flat_, options_.target_rate);
    return {errors_.data_ptr<float>(), static_cast<std::size_t>(errors_.numel())};
  }

  [[nodiscard]] const torch::Tensor& online() const { return online_flat_; }

 private:
  /// The online network chooses the next action, the target network says what it is worth.
  torch::Tensor bootstrap(const torch::Tensor& returns, const torch::Tensor& discounts,
                          const torch::Tensor& next) {
    const torch::NoGradGuard no_graph;
    const torch::Tensor best = online_.values(next).argmax(1, true);
    const torch::Tensor worth = target_.values(next).gather(1, best).squeeze(1);
    return torch::addcmul(returns * options_.reward_scale, discounts, worth);
  }

  void optimise() {
    const double norm = gradient_.norm().item<double>();
    if (norm > options_.gradient_clip) {
      gradient_.mul_(options_.gradient_clip / norm);
    }
    ++updates_;
    const auto t = static_cast<double>(updates_);
    const double progress = std::min(1.0, t / static_cast<double>(options_.decay_updates));
    const double rate = std::lerp(options_.learning_rate, options_.final_learning_rate, progress);
    first_moment_.lerp_(gradient_, 1.0 - kBeta1);
    second_moment_.mul_(kBeta2).addcmul_(gradient_, gradient_, 1.0 - kBeta2);
    const torch::Tensor scale =
        second_moment_.sqrt().div_(std::sqrt(1.0 - std::pow(kBeta2, t))).add_(kAdamEpsilon);
    online_flat_.addcdiv_(first_moment_, scale, -rate / (1.0 - std::pow(kBeta1, t)));
  }

  LearnerOptions options_;
  torch::Tensor online_flat_;
  torch::Tensor target_flat_;
  torch::Tensor gradient_;
  torch::Tensor first_moment_;
  torch::Tensor second_moment_;
  Layers online_;  // Views of online_flat_, with gradients in gradient_.
  Layers target_;  // Views of target_flat_.
  torch::Tensor errors_;
  std::size_t updates_ = 0;
};

Learner::Learner(const NetworkShape& shape, const LearnerOptions& options, std::uint64_t seed)
    : state_(std::make_unique<State>(shape, options, seed)) {}

Learner::~Learner() = default;

std::span<const float> Learner::step(std::span<float> now, std::span<std::int32_t> actions,
                                     std::span<float> returns, std::span<float> discounts,
                                     std::span<float> next, std::span<float> weights) {
  const std::int64_t batch = signed_size(actions.size());
  const std::int64_t width = signed_size(now.size()) / batch;
  return state_->step(
      view(now, {batch, width}, torch::kFloat32),
      view(actions, {batch}, torch::kInt32).to(torch::kInt64),
      view(returns, {batch}, torch::kFloat32), view(discounts, {batch}, torch::kFloat32),
      view(next, {batch, width}, torch::kFloat32), view(weights, {batch}, torch::kFloat32));
}

std::span<const float> Learner::parameters() const {
  const torch::Tensor& flat = state_->online();
  return {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
}

}  // namespace apex
