#pragma once

#include <reprise/reprise.hpp>

#include "learner.hpp"
#include "options.hpp"

#include <chrono>
#include <cstdint>
#include <future>
#include <string>

namespace apex {

/// What a run that goes on from a checkpoint has behind it.
struct Past {
  std::uint64_t parts = 0;  ///< Processes that trained before this one.
  double seconds = 0.0;     ///< Of their training.
};

/// Takes buffer and learner back to the newest checkpoint of `Options::resume_path` that is whole.
/// The buffer must have no writers yet. Throws `reprise::CheckpointError`, `std::runtime_error`.
[[nodiscard]] Past resume(const Options& options, reprise::ReplayBuffer& replay, Learner& learner);

/// Saves buffer and learner together in a thread of its own, while training goes on.
///
/// Thread safety: one thread at a time. Destroying it waits for a save under way.
class Checkpointer {
 public:
  /// Without a directory in the options it does nothing. Throws `std::runtime_error` if the
  /// directory holds something and is not the one that was resumed from.
  Checkpointer(const Options& options, reprise::ReplayBuffer& replay, const Past& past);

  /// Starts a save if one is due and none is under way. The learner must be between two updates; it
  /// goes on once its parameters are copied. Throws what a save before has thrown.
  void offer(const Learner& learner);

  /// Waits for a save under way and makes a last one.
  void save_last(const Learner& learner);

 private:
  using Clock = std::chrono::steady_clock;

  void start(const Learner& learner);

  const std::string directory_;
  const std::chrono::duration<double> period_;
  reprise::ReplayBuffer& replay_;
  const Past past_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
  std::future<void> save_;
};

}  // namespace apex
