#pragma once

#include <reprise/reprise.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

constexpr std::size_t kMaxStates = 16;

/// How the next transition to learn from is chosen. The value is an index in `Options::selectors`.
enum Choice : std::uint8_t { Uniform, Oracle, Greedy, RankBased, Proportional };

/// The form of Q: a table, or a linear function with an additional feature that is always 1.
enum class Features : std::uint8_t { Tabular, Linear };

struct Transition {
  std::size_t state;
  std::size_t action;
  double reward;
  double discount;  ///< 0 if the transition ended the episode.
  std::size_t next;
};

/// The Q-values of a Blind Cliffwalk. In state s the action s % 2 leads to state s + 1, or from the
/// last state to a reward of 1 and the end; the other action ends the episode without a reward. The
/// discount is 1 - 1 / states.
class QFunction {
 public:
  /// Draws each parameter from a normal distribution of mean 0 and standard deviation 0.1.
  QFunction(std::size_t states, Features features, std::mt19937_64& random);

  [[nodiscard]] double td_error(const Transition& from) const;
  /// Makes one update of Q-learning with a step size of 1/4.
  void learn(const Transition& from);
  /// Returns the mean squared error of all Q-values.
  [[nodiscard]] double loss() const;

 private:
  [[nodiscard]] double value(std::size_t state, std::size_t action) const {
    return weights_.at(2 * state + action) + bias_.at(action);
  }

  std::size_t states_;
  Features features_;
  std::array<double, 2 * kMaxStates> weights_{};  ///< The weight of each state and action.
  /// The weight of the feature that is always 1, for each action: 0 and unused in a table.
  std::array<double, 2> bias_{};
  std::array<double, 2 * kMaxStates> true_values_{};
};

/// A buffer with the transitions of all 2^states sequences of actions, in random order. Only one of
/// these sequences reaches the reward. The buffer has a selector for each choice.
class Memory {
 public:
  Memory(std::size_t states, std::mt19937_64& random);

  /// Updates `q` with transitions that `choice` chooses until the loss is below 0.001. Returns the
  /// number of updates. Each choice but `Uniform` and `Oracle` changes priorities that only it uses
  /// and that nothing resets, so each of these can be made only once.
  std::size_t updates_to_learn(Choice choice, QFunction q, std::uint64_t seed);

 private:
  [[nodiscard]] Transition transition(const reprise::Batch& batch, std::size_t i) const;
  void prioritize_by_gain(const QFunction& q, std::mt19937_64& random);

  reprise::Schema schema_;
  reprise::ScalarObservation<std::int32_t> state_ = schema_.observation<std::int32_t>("state");
  reprise::ScalarColumn<std::int32_t> action_ = schema_.column<std::int32_t>("action");
  reprise::Reward reward_ = schema_.reward("reward");
  reprise::ReplayBuffer replay_;
  // A transition of each state and action. The buffer has many copies of most of them.
  std::vector<Transition> distinct_;
  std::vector<reprise::ItemKey> distinct_keys_;
};
