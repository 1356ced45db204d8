#include "cliffwalk.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace {

constexpr double kStepSize = 0.25;
constexpr double kLearned = 1e-3;
/// If the oracle's best update lowers the loss by less than this share, priorities are random.
constexpr double kMinGain = 2e-3;
/// Uniform draws do not depend on what was learned before, so a batch has so many of them.
constexpr std::size_t kUniformDraws = 4096;

double discount_of(std::size_t states) {
  return 1.0 - 1.0 / static_cast<double>(states);
}

}  // namespace

QFunction::QFunction(std::size_t states, Features features, std::mt19937_64& random)
    : states_(states), features_(features) {
  std::normal_distribution<double> small(0.0, 0.1);
  for (std::size_t s = 0; s < states; ++s) {
    weights_.at(2 * s) = small(random);
    weights_.at(2 * s + 1) = small(random);
    true_values_.at(2 * s + s % 2) =
        std::pow(discount_of(states), static_cast<double>(states - 1 - s));
  }
  if (features == Features::Linear) {
    bias_ = {small(random), small(random)};
  }
}

double QFunction::td_error(const Transition& from) const {
  const double next = std::max(value(from.next, 0), value(from.next, 1));
  return from.reward + from.discount * next - value(from.state, from.action);
}

void QFunction::learn(const Transition& from) {
  const double step = kStepSize * td_error(from);
  weights_.at(2 * from.state + from.action) += step;
  if (features_ == Features::Linear) {
    bias_.at(from.action) += step;
  }
}

double QFunction::loss() const {
  double sum = 0.0;
  for (std::size_t i = 0; i < 2 * states_; ++i) {
    const double error = weights_[i] + bias_[i % 2] - true_values_[i];
    sum += error * error;
  }
  return sum / static_cast<double>(2 * states_);
}

Memory::Memory(std::size_t states, std::mt19937_64& random)
    : replay_(schema_,
              {.capacity_steps = (std::size_t{2} << states) - 2,
               .window = reprise::Transitions{.discount = static_cast<float>(discount_of(states))},
               // In the order of `Choice`. The exponents are those of the paper's other parts.
               .selectors = {reprise::Uniform{},
                             reprise::MaxHeap{.initial = reprise::InitialPriority::Constant,
                                              .initial_constant = 0.0F},
                             reprise::MaxHeap{}, reprise::RankBased{.alpha = 0.7F},
                             reprise::Proportional{.alpha = 0.6F}},
               .episode_index = true,
               .max_writers = 1,
               .shards = 1}),
      distinct_(2 * states),
      distinct_keys_(2 * states) {
  std::vector<std::uint32_t> sequences(std::size_t{1} << states);
  std::iota(sequences.begin(), sequences.end(), 0U);
  std::shuffle(sequences.begin(), sequences.end(), random);
  std::vector<std::uint64_t> episode_of(2 * states);
  auto writer = replay_.writer();
  for (const std::uint32_t sequence : sequences) {
    writer.begin_episode();
    for (std::size_t s = 0; s < states && (s == 0 || writer.in_episode()); ++s) {
      const std::size_t action = (sequence >> s) % 2;
      const bool right = action == s % 2;
      const bool last = !right || s + 1 == states;
      const Transition step{s, action, right && last ? 1.0 : 0.0, last ? 0.0 : discount_of(states),
                            last ? s : s + 1};
      writer.now(state_) = static_cast<std::int32_t>(step.state);
      writer.now(action_) = static_cast<std::int32_t>(step.action);
      writer.now(reward_) = static_cast<float>(step.reward);
      writer.next(state_) = static_cast<std::int32_t>(step.next);
      distinct_[2 * s + action] = step;
      episode_of[2 * s + action] = writer.episode_id();
      writer.commit(last ? reprise::End::Terminated : reprise::End::Continue);
    }
  }
  for (std::size_t i = 0; i < distinct_.size(); ++i) {
    distinct_keys_[i] = replay_.episodes().find(episode_of[i], distinct_[i].state).value();
  }
}

Transition Memory::transition(const reprise::Batch& batch, std::size_t i) const {
  return {static_cast<std::size_t>(batch.now(state_)[i]),
          static_cast<std::size_t>(batch.now(action_)[i]), double{batch.returns(reward_)[i]},
          double{batch.discounts()[i]}, static_cast<std::size_t>(batch.next(state_)[i])};
}

/// Sets the priority of each distinct transition to the amount by which learning from it would
/// lower the loss. A linear function can reach values from which no update lowers the loss enough.
/// Then priorities are random: otherwise the oracle would choose the same tiny change for ever.
void Memory::prioritize_by_gain(const QFunction& q, std::mt19937_64& random) {
  const double loss = q.loss();
  std::vector<float> gains;
  for (const Transition& candidate : distinct_) {
    QFunction after = q;
    after.learn(candidate);
    gains.push_back(static_cast<float>(std::max(loss - after.loss(), 0.0)));
  }
  if (double{std::ranges::max(gains)} < kMinGain * loss) {
    std::uniform_real_distribution<float> any;
    std::ranges::generate(gains, [&] { return any(random); });
  }
  replay_.selector(Oracle).update(distinct_keys_, gains);
}

std::size_t Memory::updates_to_learn(Choice choice, QFunction q, std::uint64_t seed) {
  auto sampler = replay_.selector(choice).sampler({.seed = seed});
  std::mt19937_64 random(seed);
  std::vector<std::size_t> sequence(choice == Uniform ? kUniformDraws : 1);
  std::iota(sequence.begin(), sequence.end(), std::size_t{0});
  for (std::size_t updates = 0;;) {
    if (choice == Oracle) {
      prioritize_by_gain(q, random);
    }
    const auto batch = sampler.sample(sequence.size(), {.draws = reprise::Draws::Independent});
    // The items of a batch are sorted by their place in memory, so they are shuffled.
    std::shuffle(sequence.begin(), sequence.end(), random);
    for (const std::size_t i : sequence) {
      const Transition drawn = transition(*batch, i);
      const auto error = static_cast<float>(std::abs(q.td_error(drawn)));
      q.learn(drawn);
      ++updates;
      if (q.loss() < kLearned) {
        return updates;
      }
      if (choice >= Greedy) {
        replay_.selector(choice).update(batch->keys(), std::span(&error, 1));
      }
    }
  }
}
