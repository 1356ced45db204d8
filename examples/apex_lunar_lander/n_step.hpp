#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace apex {

/// The steps of one environment whose items are not decided yet, with what an actor needs to give
/// those items their first priorities: absolute n-step TD errors by its own Q values, as in Ape-X.
///
/// Thread safety: one thread at a time.
class OpenSteps {
 public:
  OpenSteps(float discount, float reward_scale)
      : discount_(discount), reward_scale_(reward_scale) {}

  void begin_episode() noexcept { steps_.clear(); }

  /// The step about to be committed: the value of the action taken, and the raw reward.
  void add(float value, float reward) { steps_.push_back({value, reward * reward_scale_}); }

  /// Priorities of the `completing` oldest items, which are thereby decided. Each return runs from
  /// its step over all later ones and ends with `next_value`, the value of the state that they led
  /// to: 0 after a termination.
  std::span<const float> decide(std::size_t completing, float next_value);

 private:
  struct Step {
    float value;
    float reward;
  };

  float discount_;
  float reward_scale_;
  std::vector<Step> steps_;
  std::vector<float> priorities_;
};

}  // namespace apex
