#include "learner.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace apex {
namespace {

constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kAdamEpsilon = 1e-8;

std::int64_t signed_size(std::size_t size) {
  return static_cast<std::int64_t>(size);
}

template <class T>
at::Tensor view(std::span<T> data, at::IntArrayRef shape, at::ScalarType type) {
  return at::from_blob(data.data(), shape, at::TensorOptions(type));
}

/// Uniform in +-1/sqrt(inputs), as torch's own linear layers start.
at::Tensor initial_parameters(const NetworkShape& shape, std::uint64_t seed) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  at::Tensor flat = at::empty({signed_size(shape.parameters())});
  for (const NetworkShape::Layer& layer : shape.layers()) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(layer.inputs));
    flat.narrow(0, signed_size(layer.weights), signed_size((layer.inputs + 1) * layer.outputs))
        .uniform_(-bound, bound, generator);
  }
  return flat;
}

/// Row a makes the value of action a out of the head [value, advantages]: the value plus the
/// advantage of a minus the mean advantage. So a dueling head is one constant matrix.
at::Tensor dueling_rows(const NetworkShape& shape) {
  const std::int64_t actions = signed_size(shape.actions);
  const at::Tensor centred = at::eye(actions) - 1.0 / static_cast<double>(actions);
  return at::cat({at::ones({actions, 1}), centred}, 1);
}

/// The layers of one network, or of its gradient, as views of one flat tensor.
struct Layers {
  Layers(const NetworkShape& shape, const at::Tensor& flat) {
    const auto layers = shape.layers();
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::int64_t inputs = signed_size(layers[i].inputs);
      const std::int64_t outputs = signed_size(layers[i].outputs);
      weights[i] =
          flat.narrow(0, signed_size(layers[i].weights), inputs * outputs).view({inputs, outputs});
      biases[i] = flat.narrow(0, signed_size(layers[i].biases), outputs);
    }
  }

  /// The input of each layer, and the head: what `backward` needs again.
  struct Pass {
    std::array<at::Tensor, 3> inputs;
    at::Tensor head;

    [[nodiscard]] Pass rows(std::int64_t first, std::int64_t count) const {
      const auto part = [&](const at::Tensor& all) { return all.narrow(0, first, count); };
      return {{part(inputs[0]), part(inputs[1]), part(inputs[2])}, part(head)};
    }
  };

  [[nodiscard]] Pass forward(const at::Tensor& observations) const {
    Pass pass;
    pass.inputs[0] = observations;
    pass.inputs[1] = at::addmm(biases[0], pass.inputs[0], weights[0]).relu_();
    pass.inputs[2] = at::addmm(biases[1], pass.inputs[1], weights[1]).relu_();
    pass.head = at::addmm(biases[2], pass.inputs[2], weights[2]);
    return pass;
  }

  /// Overwrites `gradient` with the parameters' gradient, given that of the head.
  void backward(const Pass& pass, at::Tensor head_gradient, Layers& gradient) const {
    at::Tensor delta = std::move(head_gradient);
    for (std::size_t i = weights.size(); i-- > 0;) {
      at::mm_out(gradient.weights[i], pass.inputs[i].t(), delta);
      at::sum_out(gradient.biases[i], delta, 0);
      if (i > 0) {
        delta = at::threshold_backward(delta.mm(weights[i].t()), pass.inputs[i], 0);
      }
    }
  }

  std::array<at::Tensor, 3> weights;
  std::array<at::Tensor, 3> biases;
};

}  // namespace

class Learner::State {
 public:
  State(const NetworkShape& shape, const LearnerOptions& options, std::uint64_t seed)
      : options_(options),
        online_flat_(initial_parameters(shape, seed)),
        target_flat_(online_flat_.clone()),
        gradient_flat_(at::zeros_like(online_flat_)),
        first_moment_(at::zeros_like(online_flat_)),
        second_moment_(at::zeros_like(online_flat_)),
        dueling_(dueling_rows(shape)),
        online_(shape, online_flat_),
        target_(shape, target_flat_),
        gradient_(shape, gradient_flat_) {}

  std::span<const float> step(const at::Tensor& now, const at::Tensor& actions,
                              const at::Tensor& returns, const at::Tensor& discounts,
                              const at::Tensor& next, const at::Tensor& weights) {
    const std::int64_t batch = now.size(0);
    const Layers::Pass both = online_.forward(at::cat({now, next}));
    const Layers::Pass pass = both.rows(0, batch);
    const at::Tensor next_head = both.head.narrow(0, batch, batch);

    // The online network chooses the next action, the target network says what it is worth.
    const at::Tensor best = next_head.mm(dueling_.t()).argmax(1);
    const at::Tensor worth = value_of(target_.forward(next).head, dueling_.index_select(0, best));
    const at::Tensor targets = at::addcmul(returns * options_.reward_scale, discounts, worth);

    const at::Tensor chosen = dueling_.index_select(0, actions);
    errors_ = value_of(pass.head, chosen).sub_(targets);
    // The derivative of the Huber loss is the error, clipped; the loss is the weighted mean.
    const at::Tensor slope =
        errors_.clamp(-1.0, 1.0).mul_(weights).div_(static_cast<double>(batch));
    online_.backward(pass, chosen * slope.unsqueeze(1), gradient_);
    optimise();
    target_flat_.lerp_(online_flat_, options_.target_rate);
    errors_.abs_();
    return {errors_.data_ptr<float>(), static_cast<std::size_t>(batch)};
  }

  [[nodiscard]] const at::Tensor& online() const { return online_flat_; }

  [[nodiscard]] std::vector<std::byte> save() const {
    std::vector<std::byte> saved(sizeof(std::uint64_t) + flats().size() * flat_bytes());
    const std::uint64_t updates = updates_;
    std::memcpy(saved.data(), &updates, sizeof(updates));
    std::byte* to = saved.data() + sizeof(updates);
    for (const at::Tensor& flat : flats()) {
      std::memcpy(to, flat.data_ptr<float>(), flat_bytes());
      to += flat_bytes();
    }
    return saved;
  }

  void load(std::span<const std::byte> saved) {
    std::uint64_t updates = 0;
    if (saved.size() != sizeof(updates) + flats().size() * flat_bytes()) {
      throw std::runtime_error("the checkpoint is of a network of another shape: its learner has " +
                               std::to_string(saved.size()) + " bytes, not " +
                               std::to_string(sizeof(updates) + flats().size() * flat_bytes()));
    }
    std::memcpy(&updates, saved.data(), sizeof(updates));
    updates_ = updates;
    const std::byte* from = saved.data() + sizeof(updates);
    for (const at::Tensor& flat : flats()) {
      std::memcpy(flat.data_ptr<float>(), from, flat_bytes());
      from += flat_bytes();
    }
  }

 private:
  static at::Tensor value_of(const at::Tensor& head, const at::Tensor& rows) {
    return (head * rows).sum(1);
  }

  /// What a checkpoint has of them, in its order.
  [[nodiscard]] std::array<at::Tensor, 4> flats() const {
    return {online_flat_, target_flat_, first_moment_, second_moment_};
  }
  [[nodiscard]] std::size_t flat_bytes() const { return online_flat_.nbytes(); }

  void optimise() {
    const double norm = gradient_flat_.norm().item<double>();
    if (norm > options_.gradient_clip) {
      gradient_flat_.mul_(options_.gradient_clip / norm);
    }
    ++updates_;
    const auto t = static_cast<double>(updates_);
    const double progress = std::min(1.0, t / static_cast<double>(options_.decay_updates));
    const double rate = std::lerp(options_.learning_rate, options_.final_learning_rate, progress);
    first_moment_.lerp_(gradient_flat_, 1.0 - kBeta1);
    second_moment_.mul_(kBeta2).addcmul_(gradient_flat_, gradient_flat_, 1.0 - kBeta2);
    const at::Tensor scale =
        second_moment_.sqrt().div_(std::sqrt(1.0 - std::pow(kBeta2, t))).add_(kAdamEpsilon);
    online_flat_.addcdiv_(first_moment_, scale, -rate / (1.0 - std::pow(kBeta1, t)));
  }

  LearnerOptions options_;
  at::Tensor online_flat_;
  at::Tensor target_flat_;
  at::Tensor gradient_flat_;
  at::Tensor first_moment_;
  at::Tensor second_moment_;
  at::Tensor dueling_;
  Layers online_;    // Views of online_flat_.
  Layers target_;    // Views of target_flat_.
  Layers gradient_;  // Views of gradient_flat_.
  at::Tensor errors_;
  std::size_t updates_ = 0;
};

Learner::Learner(const NetworkShape& shape, const LearnerOptions& options, std::uint64_t seed)
    : state_(std::make_unique<State>(shape, options, seed)) {}

Learner::~Learner() = default;

std::span<const float> Learner::step(std::span<float> now, std::span<std::int32_t> actions,
                                     std::span<float> returns, std::span<float> discounts,
                                     std::span<float> next, std::span<float> weights) {
  const c10::InferenceMode no_graph;
  const std::int64_t batch = signed_size(actions.size());
  const std::int64_t width = signed_size(now.size()) / batch;
  return state_->step(view(now, {batch, width}, at::kFloat), view(actions, {batch}, at::kInt),
                      view(returns, {batch}, at::kFloat), view(discounts, {batch}, at::kFloat),
                      view(next, {batch, width}, at::kFloat), view(weights, {batch}, at::kFloat));
}

std::span<const float> Learner::parameters() const {
  const at::Tensor& flat = state_->online();
  return {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
}

std::vector<std::byte> Learner::save() const {
  return state_->save();
}

void Learner::load(std::span<const std::byte> saved) {
  state_->load(saved);
}

}  // namespace apex
