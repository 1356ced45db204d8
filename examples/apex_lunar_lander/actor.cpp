#include "actor.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace apex {
namespace {

/// Environments with a lower epsilon than this count as greedy.
constexpr float kGreedyEpsilon = 0.01F;

constexpr std::size_t kObservations = LunarLander::kObservations;
constexpr std::size_t kActions = LunarLander::kActions;

/// Returns the row of environment `e` in a table with rows of `width` values.
template <std::size_t width>
std::span<float> row(std::vector<float>& table, std::size_t e) {
  return std::span(table).subspan(e * width, width);
}

std::int32_t best_action(std::span<const float> values) {
  return static_cast<std::int32_t>(std::ranges::max_element(values) - values.begin());
}

}  // namespace

void OpenSteps::decide(std::size_t completing, float discount, float next_value,
                       std::vector<float>& priorities) {
  const std::size_t first = priorities.size();
  priorities.resize(first + completing);
  float value = next_value;
  for (std::size_t i = steps_.size(); i-- > 0;) {
    value = steps_[i].reward + discount * value;
    if (i < completing) {
      priorities[first + i] = std::abs(value - steps_[i].value);
    }
  }
  steps_.erase(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(completing));
}

float exploration(const Options& options, std::size_t index, std::size_t count) {
  const double position =
      count < 2 ? 1.0 : static_cast<double>(index) / static_cast<double>(count - 1);
  return static_cast<float>(std::pow(options.epsilon, 1.0 + options.epsilon_exponent * position));
}

Actor::Actor(Job& job, std::size_t index)
    : job_(job),
      policy_(job.learner),
      random_(stream_seed(job.options.seed, index)),
      writers_(job.replay, job.options.environments),
      observations_(writers_.size() * kObservations),
      values_(writers_.size() * kActions),
      next_values_(writers_.size() * kActions),
      actions_(writers_.size()),
      rewards_(writers_.size()),
      ends_(writers_.size(), reprise::End::Truncated) {
  const Options& options = job.options;
  const std::size_t all = options.actors * options.environments;
  for (std::size_t e = 0; e < options.environments; ++e) {
    // Threads get environments in turn, so that each thread has curious and greedy environments.
    const std::size_t index_in_all = e * options.actors + index;
    const float epsilon = exploration(options, index_in_all, all);
    landers_.emplace_back(random_.next());
    environments_.push_back(
        {.epsilon = epsilon, .scored = epsilon < kGreedyEpsilon || index_in_all + 1 == all});
  }
}

void Actor::run() {
  use_one_tensor_thread();
  const Fields& fields = job_.fields;
  policy_.refresh();
  begin_episodes();
  policy_.evaluate(observations_, values_);
  for (std::size_t steps = 1;; ++steps) {
    writers_.now(fields.state, observations_);  // Stored only where an episode begins.
    step();
    writers_.now(fields.action, actions_);
    writers_.now(fields.reward, rewards_);
    writers_.next(fields.state, observations_);
    policy_.evaluate(observations_, next_values_);
    decide_priorities();
    if (writers_.commit(ends_, priorities_) == reprise::CommitStatus::Closed) {
      return;
    }
    std::swap(values_, next_values_);
    if (begin_episodes()) {
      policy_.evaluate(observations_, values_);
    }
    if (steps % job_.options.fetch_steps == 0) {
      policy_.refresh();
    }
  }
}

bool Actor::begin_episodes() {
  bool any = false;
  for (std::size_t e = 0; e < environments_.size(); ++e) {
    if (ends_[e] != reprise::End::Continue) {
      any = true;
      landers_[e].reset(row<kObservations>(observations_, e));
      environments_[e].episode_return = 0.0F;
    }
  }
  return any;
}

void Actor::step() {
  for (std::size_t e = 0; e < environments_.size(); ++e) {
    Environment& environment = environments_[e];
    actions_[e] = random_.uniform() < environment.epsilon
                      ? static_cast<std::int32_t>(random_.below(kActions))
                      : best_action(row<kActions>(values_, e));
    const LunarLander::Outcome outcome =
        landers_[e].step(actions_[e], row<kObservations>(observations_, e));
    rewards_[e] = outcome.reward;
    ends_[e] = outcome.end;
    environment.episode_return += outcome.reward;
    if (outcome.end != reprise::End::Continue && environment.scored) {
      job_.returns.add(environment.episode_return);
    }
  }
}

void Actor::decide_priorities() {
  const auto scale = static_cast<float>(job_.options.reward_scale);
  priorities_.clear();
  for (std::size_t e = 0; e < environments_.size(); ++e) {
    OpenSteps& open = environments_[e].open;
    open.add(row<kActions>(values_, e)[static_cast<std::size_t>(actions_[e])], scale * rewards_[e]);
    // An episode that a time limit ends could go on, so the value of its last state counts.
    const bool terminated = ends_[e] == reprise::End::Terminated;
    open.decide(writers_[e].completing(ends_[e]), job_.options.discount,
                terminated ? 0.0F : std::ranges::max(row<kActions>(next_values_, e)), priorities_);
  }
}

float evaluate(Policy& policy, Random& seeds, std::size_t episodes) {
  std::vector<float> observations(episodes * kObservations);
  std::vector<float> values(episodes * kActions);
  std::vector<float> returns(episodes);
  std::vector<bool> ended(episodes);
  std::deque<LunarLander> landers;
  for (std::size_t e = 0; e < episodes; ++e) {
    landers.emplace_back(seeds.next()).reset(row<kObservations>(observations, e));
  }
  for (std::size_t running = episodes; running != 0;) {
    policy.evaluate(observations, values);
    for (std::size_t e = 0; e < episodes; ++e) {
      if (!ended[e]) {
        const LunarLander::Outcome outcome = landers[e].step(best_action(row<kActions>(values, e)),
                                                             row<kObservations>(observations, e));
        returns[e] += outcome.reward;
        ended[e] = outcome.end != reprise::End::Continue;
        running -= std::size_t{ended[e]};
      }
    }
  }
  return std::reduce(returns.begin(), returns.end()) / static_cast<float>(episodes);
}

}  // namespace apex
