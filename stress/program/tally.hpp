#pragma once

#include <reprise/options.hpp>

#include "checks/residence_check.hpp"
#include "program/findings.hpp"

#include <cstdint>

namespace stress {

/// The results of a run.
struct Tally {
  double seconds = 0.0;       ///< Measured time, without filling, warming up and standing still.
  std::uint64_t appends = 0;  ///< Appends in the measured time.
  std::uint64_t batches = 0;

  /// The statistics at the end; with churn, counts are summed over all buffers.
  reprise::Stats stats;
  std::uint64_t rounds = 0;
  std::uint64_t closes = 0;
  double longest_close_ms = 0.0;  ///< The longest time from close() until all threads had ended.
  std::uint64_t quiescent_points = 0;
  std::uint64_t actor_lives = 0;
  std::uint64_t learner_lives = 0;
  std::uint64_t exceptions = 0;
  Residence residence;
  std::uint64_t checkpoints = 0;       ///< Checkpoints saved; each of them was loaded again.
  std::uint64_t checkpoint_items = 0;  ///< Items drawn from loaded buffers and checked.
  std::uint64_t checkpoint_keys = 0;   ///< Keys from before a save that were valid after its load.

  Findings findings;

  [[nodiscard]] double appends_per_second() const {
    return seconds > 0.0 ? static_cast<double>(appends) / seconds : 0.0;
  }
  [[nodiscard]] double batches_per_second() const {
    return seconds > 0.0 ? static_cast<double>(batches) / seconds : 0.0;
  }

  void add(const reprise::Stats& more) {
    stats.committed_steps += more.committed_steps;
    stats.resident_steps += more.resident_steps;
    stats.evicted_steps += more.evicted_steps;
    stats.pending_steps += more.pending_steps;
    stats.sampled_items += more.sampled_items;
    stats.applied_updates += more.applied_updates;
    stats.stale_updates += more.stale_updates;
  }
};

}  // namespace stress
