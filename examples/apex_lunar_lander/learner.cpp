#include "learner.hpp"

#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string>

namespace apex {
namespace {

/// A column of a batch as a tensor, without a copy.
template <class T>
torch::Tensor view(std::span<T> column, torch::IntArrayRef shape) {
  return torch::from_blob(column.data(), shape,
                          torch::TensorOptions(torch::CppTypeToScalarType<T>()));
}

/// With parameters that the seed decides.
Network make_network(const NetworkShape& shape, std::uint64_t seed) {
  torch::manual_seed(seed);
  return Network(shape);
}

}  // namespace

Learner::Learner(const NetworkShape& shape, const LearnerOptions& options, std::uint64_t seed)
    : options_(options),
      online_(make_network(shape, seed)),
      target_(make_network(shape, seed)),
      adam_(online_->parameters(), torch::optim::AdamOptions(options.learning_rate)) {}

std::span<const float> Learner::step(std::span<float> now, std::span<std::int32_t> actions,
                                     std::span<float> returns, std::span<float> discounts,
                                     std::span<float> next, std::span<float> weights) {
  const auto batch = static_cast<std::int64_t>(actions.size());
  const auto width = static_cast<std::int64_t>(now.size()) / batch;
  torch::Tensor targets;
  {
    const torch::NoGradGuard no_graph;
    const torch::Tensor states = view(next, {batch, width});
    // The online network chooses the next action, the target network says what it is worth.
    const torch::Tensor best = online_->forward(states).argmax(1, true);
    const torch::Tensor worth = target_->forward(states).gather(1, best).squeeze(1);
    targets = view(returns, {batch}) * options_.reward_scale + view(discounts, {batch}) * worth;
  }
  const torch::Tensor chosen = online_->forward(view(now, {batch, width}))
                                   .gather(1, view(actions, {batch, 1}).to(torch::kLong))
                                   .squeeze(1);
  const torch::Tensor losses = torch::huber_loss(chosen, targets, torch::Reduction::None);
  adam_.zero_grad();
  (losses * view(weights, {batch})).mean().backward();
  torch::nn::utils::clip_grad_norm_(online_->parameters(), options_.gradient_clip);
  adam_.step();
  approach(target_, online_, options_.target_rate);
  errors_ = (chosen.detach() - targets).abs();
  return {errors_.data_ptr<float>(), actions.size()};
}

std::vector<std::byte> Learner::save() const {
  torch::serialize::OutputArchive archive;
  const auto add = [&archive](const std::string& name, const auto& part) {
    torch::serialize::OutputArchive inner;
    part.save(inner);
    archive.write(name, inner);
  };
  add("online", *online_);
  add("target", *target_);
  add("adam", adam_);
  std::ostringstream stream;
  archive.save_to(stream);
  const std::string text = stream.str();
  std::vector<std::byte> saved(text.size());
  std::memcpy(saved.data(), text.data(), text.size());
  return saved;
}

void Learner::load(std::span<const std::byte> saved) {
  torch::serialize::InputArchive archive;
  archive.load_from(reinterpret_cast<const char*>(saved.data()), saved.size());
  const auto take = [&archive](const std::string& name, auto& part) {
    torch::serialize::InputArchive inner;
    archive.read(name, inner);
    part.load(inner);
  };
  // A module takes parameters of any shape.
  Network read(online_->shape);
  take("online", *read);
  const auto own = online_->parameters();
  const auto others = read->parameters();
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].sizes() != others[i].sizes()) {
      std::ostringstream words;
      words << "the checkpoint is of a network of another shape: layers of " << others[i].sizes()
            << ", not " << own[i].sizes();
      throw std::runtime_error(words.str());
    }
  }
  take("online", *online_);
  take("target", *target_);
  take("adam", adam_);
}

}  // namespace apex
