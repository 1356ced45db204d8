// How a learner and an actor use the buffer.

#include "agent.hpp"

#include "tensor_threads.hpp"

#include <algorithm>
#include <cmath>

namespace apex {
namespace {

/// Environments that explore less than this are as good as greedy.
constexpr float kGreedy = 0.01F;

}  // namespace

ReplayTime learn(const Workplace& place, Learner& learner, const std::function<void()>& between) {
  use_one_tensor_thread();
  const Options& options = place.options;
  const Fields& fields = place.fields;
  reprise::Sampler sampler = place.replay.sampler({.seed = options.seed});
  ReplayClock clock(options.seed);
  const auto sample = [&] {
    const auto timed = clock.block();
    const reprise::SampleOptions how{.beta = options.beta};
    return place.meter != nullptr ? place.meter->sample(sampler, options.batch, how)
                                  : sampler.sample(options.batch, how);
  };
  std::size_t updates = 0;
  while (const auto batch = sample()) {
    const std::span<const float> errors = learner.step(
        batch->now(fields.state), batch->now(fields.action), batch->returns(fields.reward),
        batch->discounts(), batch->next(fields.state), batch->weights());
    {
      const auto timed = clock.block();
      if (place.meter != nullptr) {
        place.meter->update_priorities(batch->keys(), errors);
      } else {
        place.replay.update_priorities(batch->keys(), errors);
      }
    }
    if (++updates % options.publish_updates == 0) {
      place.board.publish(learner.network());
    }
    between();
  }
  return clock.time();
}

float exploration(const Options& options, std::size_t index, std::size_t count) {
  const double place =
      count < 2 ? 1.0 : static_cast<double>(index) / static_cast<double>(count - 1);
  return static_cast<float>(std::pow(options.epsilon, 1.0 + options.epsilon_exponent * place));
}

Actor::Environment::Environment(const Workplace& place, std::uint64_t seed, float exploration_rate,
                                bool is_scored)
    : lander(seed),
      writer(place.replay.writer()),
      open(place.options.discount, static_cast<float>(place.options.learner.reward_scale)),
      epsilon(exploration_rate),
      scored(is_scored) {}

Actor::Actor(const Workplace& place, std::size_t index)
    : place_(place),
      network_(place.board.shape()),
      random_(stream_seed(place.options.seed, index)),
      observations_(torch::empty({static_cast<std::int64_t>(place.options.environments),
                                  static_cast<std::int64_t>(LunarLander::kObservations)})) {
  const Options& options = place.options;
  const std::size_t all = options.actors * options.environments;
  for (std::size_t e = 0; e < options.environments; ++e) {
    // Dealt out in turn, so that every thread has curious and greedy environments.
    const std::size_t place_in_all = e * options.actors + index;
    const float epsilon = exploration(options, place_in_all, all);
    environments_.emplace_back(place, random_.next(), epsilon,
                               epsilon < kGreedy || place_in_all + 1 == all);
  }
}

ReplayTime Actor::run() {
  use_one_tensor_thread();
  const c10::InferenceMode no_graph;
  ReplayClock clock(random_.next());
  place_.board.fetch(network_, version_);
  begin_episodes();
  values_ = network_->forward(observations_);
  for (std::size_t steps = 1;; ++steps) {
    step(clock);
    const torch::Tensor next_values = network_->forward(observations_);
    if (!commit(clock, next_values)) {
      return clock.time();
    }
    values_ = begin_episodes() ? network_->forward(observations_) : next_values;
    if (steps % place_.options.fetch_steps == 0) {
      place_.board.fetch(network_, version_);
    }
  }
}

std::span<float> Actor::observation(std::size_t e) {
  return {observations_.data_ptr<float>() + e * LunarLander::kObservations,
          LunarLander::kObservations};
}

bool Actor::begin_episodes() {
  bool any = false;
  for (std::size_t e = 0; e < environments_.size(); ++e) {
    Environment& environment = environments_[e];
    if (environment.outcome.end == reprise::End::Continue) {
      continue;
    }
    any = true;
    environment.writer.begin_episode();
    const std::span<float> state = environment.writer.now(place_.fields.state);
    environment.lander.reset(state);
    std::ranges::copy(state, observation(e).begin());
    environment.open.begin_episode();
    environment.episode_return = 0.0F;
  }
  return any;
}

void Actor::step(ReplayClock& clock) {
  const torch::Tensor best = values_.argmax(1);
  for (std::size_t e = 0; e < environments_.size(); ++e) {
    Environment& environment = environments_[e];
    const bool explore = random_.uniform() < environment.epsilon;
    environment.action = static_cast<std::int32_t>(
        explore ? random_.below(LunarLander::kActions)
                : static_cast<std::size_t>(best.data_ptr<std::int64_t>()[e]));
  }
  {
    const auto timed = clock.block();
    for (Environment& environment : environments_) {
      environment.writer.now(place_.fields.action) = environment.action;
      environment.next = environment.writer.next(place_.fields.state);
    }
  }
  for (std::size_t e = 0; e < environments_.size(); ++e) {
    Environment& environment = environments_[e];
    environment.outcome = environment.lander.step(environment.action, environment.next);
    environment.episode_return += environment.outcome.reward;
    std::ranges::copy(environment.next, observation(e).begin());
  }
}

bool Actor::commit(ReplayClock& clock, const torch::Tensor& next_values) {
  const torch::Tensor highest = next_values.amax(1);
  const auto timed = clock.block();
  for (std::size_t e = 0; e < environments_.size(); ++e) {
    Environment& environment = environments_[e];
    const LunarLander::Outcome outcome = environment.outcome;
    const float value = values_.data_ptr<float>()[e * LunarLander::kActions +
                                                  static_cast<std::size_t>(environment.action)];
    const float next_value =
        outcome.end == reprise::End::Terminated ? 0.0F : highest.data_ptr<float>()[e];
    environment.open.add(value, outcome.reward);
    environment.writer.now(place_.fields.reward) = outcome.reward;
    const auto priorities =
        environment.open.decide(environment.writer.completing(outcome.end), next_value);
    const reprise::CommitStatus status =
        place_.meter != nullptr ? place_.meter->commit(environment.writer, outcome.end, priorities)
                                : environment.writer.commit(outcome.end, priorities);
    if (status == reprise::CommitStatus::Closed) {
      return false;
    }
    if (outcome.end != reprise::End::Continue && environment.scored) {
      place_.scores.add(environment.episode_return);
    }
  }
  return true;
}

}  // namespace apex
