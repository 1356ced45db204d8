#pragma once

#include "account.hpp"
#include "findings.hpp"
#include "residence_check.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stress {

/// The results of a run.
struct Tally {
  double seconds = 0.0;       ///< Measured; without filling, warming up and standing still.
  std::uint64_t appends = 0;  ///< In the measured time, like the batches.
  std::uint64_t batches = 0;

  Account account;  ///< At the end; with churn, summed over all buffers.
  std::uint64_t rounds = 0;
  std::uint64_t closes = 0;
  double longest_close_ms = 0.0;  ///< From close() until all threads were gone.
  std::uint64_t quiescent_points = 0;
  std::uint64_t actor_lives = 0;
  std::uint64_t learner_lives = 0;
  std::uint64_t exceptions = 0;
  Residence residence;
  std::uint64_t checkpoints = 0;       ///< Saved, and each loaded again.
  std::uint64_t checkpoint_items = 0;  ///< Drawn from loaded buffers and checked.
  std::uint64_t checkpoint_keys = 0;   ///< From before a save, and valid after its load.

  std::array<std::uint64_t, kFindings> findings{};
  std::uint64_t violations = 0;
  std::vector<std::string> examples;

  [[nodiscard]] std::uint64_t found(Finding finding) const {
    return findings[static_cast<std::size_t>(finding)];
  }
  [[nodiscard]] double appends_per_second() const {
    return seconds > 0.0 ? static_cast<double>(appends) / seconds : 0.0;
  }
  [[nodiscard]] double batches_per_second() const {
    return seconds > 0.0 ? static_cast<double>(batches) / seconds : 0.0;
  }

  void take(const Findings& from);
};

void add_up(Account& sum, const Account& more);

}  // namespace stress
