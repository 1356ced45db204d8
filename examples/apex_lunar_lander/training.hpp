#pragma once

#include <reprise/reprise.hpp>

#include "learner.hpp"
#include "lunar_lander.hpp"
#include "options.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <numeric>
#include <vector>

namespace apex {

/// The fields of a step.
struct Fields {
  reprise::Schema schema;
  reprise::Observation<float> state =
      schema.observation<float>("state", {LunarLander::kObservations});
  reprise::ScalarColumn<std::int32_t> action = schema.column<std::int32_t>("action");
  reprise::Reward reward = schema.reward("reward");
};

/// Returns the options of the buffer: what it stores, how it draws, and how it limits rates.
[[nodiscard]] reprise::Options replay_options(const Options& options);

/// The returns of the last training episodes of the greediest environments.
///
/// Thread safety: every method from any thread.
class RecentReturns {
 public:
  explicit RecentReturns(std::size_t episodes) : returns_(episodes) {}

  void add(float episode_return) {
    const std::lock_guard lock(mutex_);
    returns_[episodes_++ % returns_.size()] = episode_return;
  }

  /// Returns the mean of the returns; NaN before as many episodes have ended as the mean is of.
  [[nodiscard]] float mean() const {
    const std::lock_guard lock(mutex_);
    const float sum = std::accumulate(returns_.begin(), returns_.end(), 0.0F);
    return episodes_ < returns_.size() ? NAN : sum / static_cast<float>(returns_.size());
  }

 private:
  mutable std::mutex mutex_;
  std::vector<float> returns_;  // A ring, guarded by mutex_.
  std::size_t episodes_ = 0;    // Episodes so far, guarded by mutex_.
};

/// What the learner's thread and the actors' threads share.
struct Job {
  explicit Job(const Options& given) : options(given) {}

  Options options;
  Fields fields;
  reprise::ReplayBuffer replay{fields.schema, replay_options(options)};
  Learner learner{options};
  RecentReturns returns{100};
};

/// A point of the learning curve.
struct Point {
  double seconds = 0.0;  ///< Seconds of training, including tests.
  std::size_t environment_steps = 0;
  std::size_t updates = 0;
  float mean = 0.0F;  ///< `RecentReturns::mean` at this point.
};

struct Result {
  bool solved = false;
  float score = 0.0F;  ///< Mean return of the last final test.
  Point end;
};

/// Trains until the task is solved or time is over, and calls `observe` with points of the curve.
///
/// The task is solved if a network that passed a screening of 20 greedy episodes also has a mean
/// return of at least `target_score` over 100 others, on seeds of neither training nor screening.
[[nodiscard]] Result train(const Options& options,
                           const std::function<void(const Point&)>& observe);

}  // namespace apex
