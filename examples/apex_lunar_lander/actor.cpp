#include "actor.hpp"

#include <algorithm>
#include <cmath>

namespace apex {
namespace {

/// Environments that explore less than this are as good as greedy.
constexpr float kGreedy = 0.01F;

}  // namespace

float exploration(const Options& options, std::size_t index, std::size_t count) {
  const double place =
      count < 2 ? 1.0 : static_cast<double>(index) / static_cast<double>(count - 1);
  return static_cast<float>(std::pow(options.epsilon, 1.0 + options.epsilon_exponent * place));
}

Actor::Environment::Environment(const Workplace& place, std::uint64_t seed, float exploration_rate,
                                bool is_scored)
    : lander(seed),
      writer(place.replay.writer()),
      open(place.options.discount, place.options.learner.reward_scale),
      epsilon(exploration_rate),
      scored(is_scored) {}

Actor::Actor(const Workplace& place, const NetworkShape& shape, std::size_t index)
    : place_(place), network_(shape), random_(stream_seed(place.options.seed, index)) {
  const Options& options = place.options;
  const std::size_t all = options.actors * options.environments;
  for (std::size_t e = 0; e < options.environments; ++e) {
    // Dealt out in turn, so that every thread has curious and greedy environments.
    const std::size_t place_in_all = e * options.actors + index;
    const float epsilon = exploration(options, place_in_all, all);
    environments_.emplace_back(place, random_.next(), epsilon,
                               epsilon < kGreedy || place_in_all + 1 == all);
  }
  observations_.resize(options.environments * shape.observations);
  now_values_.resize(options.environments * shape.actions);
  next_values_.resize(options.environments * shape.actions);
}

std::span<float> Actor::values(std::vector<float>& all, std::size_t e) const {
  const std::size_t actions = network_.shape().actions;
  return std::span(all).subspan(e * actions, actions);
}

void Actor::begin_episode(std::size_t e) {
  Environment& environment = environments_[e];
  environment.writer.begin_episode();
  const std::span<float> state = environment.writer.now(place_.fields.state);
  environment.lander.reset(state);
  environment.open.begin_episode();
  environment.episode_return = 0.0F;
  network_.evaluate(state, values(now_values_, e));
}

ReplayTime Actor::run() {
  ReplayClock clock(random_.next());
  place_.board.fetch(network_.parameters(), version_);
  for (std::size_t e = 0; e < environments_.size(); ++e) {
    begin_episode(e);
  }
  for (std::size_t step = 1;; ++step) {
    choose_actions();
    step_environments(clock);
    network_.evaluate(observations_, next_values_);
    if (!commit_steps(clock)) {
      return clock.time();
    }
    if (step % place_.options.fetch_steps == 0) {
      place_.board.fetch(network_.parameters(), version_);
    }
  }
}

void Actor::choose_actions() {
  for (std::size_t e = 0; e < environments_.size(); ++e) {
    Environment& environment = environments_[e];
    const bool explore = random_.uniform() < environment.epsilon;
    environment.action = static_cast<std::int32_t>(explore ? random_.below(LunarLander::kActions)
                                                           : best_action(values(now_values_, e)));
  }
}

void Actor::step_environments(ReplayClock& clock) {
  {
    const auto timed = clock.block();
    for (Environment& environment : environments_) {
      environment.writer.now(place_.fields.action) = environment.action;
      environment.next = environment.writer.next(place_.fields.state);
    }
  }
  auto observation = observations_.begin();
  for (Environment& environment : environments_) {
    environment.outcome = environment.lander.step(environment.action, environment.next);
    environment.episode_return += environment.outcome.reward;
    observation = std::copy(environment.next.begin(), environment.next.end(), observation);
  }
}

bool Actor::commit_steps(ReplayClock& clock) {
  {
    const auto timed = clock.block();
    for (std::size_t e = 0; e < environments_.size(); ++e) {
      if (!commit(e)) {
        return false;
      }
    }
  }
  std::swap(now_values_, next_values_);
  for (std::size_t e = 0; e < environments_.size(); ++e) {
    Environment& environment = environments_[e];
    if (environment.outcome.end != reprise::End::Continue) {
      if (environment.scored) {
        place_.scores.add(environment.episode_return);
      }
      begin_episode(e);
    }
  }
  return true;
}

bool Actor::commit(std::size_t e) {
  Environment& environment = environments_[e];
  const LunarLander::Outcome outcome = environment.outcome;
  const std::span<const float> now = values(now_values_, e);
  const std::span<const float> next = values(next_values_, e);
  const float next_value =
      outcome.end == reprise::End::Terminated ? 0.0F : *std::max_element(next.begin(), next.end());
  environment.open.add(now[static_cast<std::size_t>(environment.action)], outcome.reward);
  environment.writer.now(place_.fields.reward) = outcome.reward;
  const auto priorities =
      environment.open.decide(environment.writer.completing(outcome.end), next_value);
  return environment.writer.commit(outcome.end, priorities) != reprise::CommitStatus::Closed;
}

}  // namespace apex
