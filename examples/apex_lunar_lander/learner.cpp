#include "learner.hpp"

#include "lunar_lander.hpp"
#include "network.hpp"

#include <dlfcn.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/serialize.h>

#include <algorithm>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>

namespace apex {
namespace {

constexpr auto kObservations = static_cast<std::int64_t>(LunarLander::kObservations);
constexpr auto kActions = static_cast<std::int64_t>(LunarLander::kActions);

/// Returns a column of a batch as a tensor that shares its memory.
template <class T>
torch::Tensor view(std::span<T> column, torch::IntArrayRef shape) {
  return torch::from_blob(column.data(), shape,
                          torch::TensorOptions(torch::CppTypeToScalarType<T>()));
}

/// Makes a network whose parameters depend only on the seed.
Network make_network(const Options& options) {
  torch::manual_seed(options.seed);
  return Network(kObservations, options.hidden, kActions);
}

}  // namespace

struct Learner::State {
  explicit State(const Options& given) : options(given) {}

  const Options options;
  Network online = make_network(options);
  Network target = make_network(options);
  torch::optim::Adam adam{online->parameters(), torch::optim::AdamOptions(options.learning_rate)};
  torch::Tensor errors;

  std::mutex mutex;                           // Held while parameters are copied.
  Network published = make_network(options);  // Guarded by mutex.
  std::uint64_t version = 0;                  // Guarded by mutex; 0 before the first `publish`.
};

Learner::Learner(const Options& options) : state_(std::make_unique<State>(options)) {}
Learner::~Learner() = default;

std::span<const float> Learner::step(std::span<float> now, std::span<std::int32_t> actions,
                                     std::span<float> returns, std::span<float> discounts,
                                     std::span<float> next, std::span<float> weights) {
  State& state = *state_;
  const auto batch = static_cast<std::int64_t>(actions.size());
  torch::Tensor targets;
  {
    const torch::NoGradGuard no_graph;
    const torch::Tensor states = view(next, {batch, kObservations});
    // The online network chooses the next action, and the target network gives its value.
    const torch::Tensor best = state.online->forward(states).argmax(1, true);
    const torch::Tensor next_values = state.target->forward(states).gather(1, best).squeeze(1);
    targets = view(returns, {batch}) * state.options.reward_scale +
              view(discounts, {batch}) * next_values;
  }
  const torch::Tensor chosen = state.online->forward(view(now, {batch, kObservations}))
                                   .gather(1, view(actions, {batch, 1}).to(torch::kLong))
                                   .squeeze(1);
  const torch::Tensor losses = torch::huber_loss(chosen, targets, torch::Reduction::None);
  state.adam.zero_grad();
  (losses * view(weights, {batch})).mean().backward();
  torch::nn::utils::clip_grad_norm_(state.online->parameters(), state.options.gradient_clip);
  state.adam.step();
  approach(state.target, state.online, state.options.target_rate);
  state.errors = (chosen.detach() - targets).abs();
  return {state.errors.data_ptr<float>(), actions.size()};
}

void Learner::publish() {
  const std::lock_guard lock(state_->mutex);
  approach(state_->published, state_->online, 1.0);
  ++state_->version;
}

std::string Learner::save() const {
  torch::serialize::OutputArchive archive;
  const auto add = [&archive](const std::string& name, const auto& part) {
    torch::serialize::OutputArchive inner;
    part.save(inner);
    archive.write(name, inner);
  };
  add("online", *state_->online);
  add("target", *state_->target);
  add("adam", state_->adam);
  std::ostringstream stream;
  archive.save_to(stream);
  return stream.str();
}

void Learner::load(std::span<const std::byte> saved) {
  torch::serialize::InputArchive archive;
  archive.load_from(reinterpret_cast<const char*>(saved.data()), saved.size());
  const auto read = [&archive](const std::string& name, auto& part) {
    torch::serialize::InputArchive inner;
    archive.read(name, inner);
    part.load(inner);
  };
  read("online", *state_->online);
  // `read` does not check shapes. All shapes follow from the width of the first layer.
  const std::int64_t hidden = state_->online->parameters().front().size(0);
  if (hidden != state_->options.hidden) {
    throw std::invalid_argument("--hidden is " + std::to_string(state_->options.hidden) +
                                ", but the checkpoint has a network of " + std::to_string(hidden) +
                                "; allowed: the same");
  }
  read("target", *state_->target);
  read("adam", state_->adam);
  // Some versions of torch also take the learning rate from the archive.
  for (torch::optim::OptimizerParamGroup& group : state_->adam.param_groups()) {
    group.options().set_lr(state_->options.learning_rate);
  }
  publish();
}

Policy::Policy(const Learner& learner)
    : learner_(*learner.state_),
      network_(std::make_unique<Network>(make_network(learner_.options))) {}
Policy::~Policy() = default;

bool Policy::refresh() {
  const std::lock_guard lock(learner_.mutex);
  if (version_ == learner_.version) {
    return false;
  }
  approach(*network_, learner_.published, 1.0);
  version_ = learner_.version;
  return true;
}

void Policy::evaluate(std::span<float> observations, std::span<float> values) {
  const c10::InferenceMode no_graph;
  const auto rows = static_cast<std::int64_t>(values.size()) / kActions;
  const torch::Tensor outputs = (*network_)->forward(view(observations, {rows, kObservations}));
  std::copy_n(outputs.data_ptr<float>(), values.size(), values.begin());
}

void use_one_tensor_thread() {
  at::set_num_threads(1);
  // Torch uses the BLAS of the machine. Of the usual ones only OpenBLAS has threads of its own.
  if (void* const function = dlsym(RTLD_DEFAULT, "openblas_set_num_threads")) {
    reinterpret_cast<void (*)(int)>(function)(1);
  }
}

}  // namespace apex
