#pragma once

#include <reprise/options.hpp>

#include "threads/shared.hpp"

#include <cstdint>

namespace stress {

/// Compares what the buffer counted with what its threads counted. Call it while all other threads
/// stand still.
class AccountCheck {
 public:
  explicit AccountCheck(Shared& shared) : shared_(shared) {}

  /// `all_ingested`: everything decided has been ingested, so resident and pending steps are known
  /// exactly. Otherwise only their sum is checked.
  void check(const reprise::Stats& stats, bool all_ingested);
  /// Checks only the rate limiter. Call it while everything is ingested and no call is under way.
  void check_limit(const reprise::Stats& stats);

 private:
  void expect(const char* what, std::uint64_t is, std::uint64_t expected);

  Shared& shared_;
  std::uint64_t committed_ = 0;  ///< Steps committed at the last check.
  std::uint64_t evicted_ = 0;    ///< Steps evicted at the last check.
};

}  // namespace stress
