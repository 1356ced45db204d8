#pragma once

#include <reprise/options.hpp>

#include "threads/shared.hpp"

#include <cstdint>

namespace stress {

/// Whether everything decided has been ingested. Otherwise only the sum of resident and pending
/// steps is known exactly.
enum class Ingested : std::uint8_t { All, NotAll };

/// Compares what the buffer counted with what its threads counted. Call it while all other threads
/// stand still.
class AccountCheck {
 public:
  explicit AccountCheck(Shared& shared) : shared_(shared) {}

  void check(const reprise::Stats& stats, Ingested ingested);
  /// Checks only the rate limiter. Call it while everything is ingested and no call is under way.
  void check_limit(const reprise::Stats& stats);

 private:
  /// The sums of what all threads counted.
  struct Counted {
    std::uint64_t committed = 0;
    std::uint64_t undecided_steps = 0;
    std::uint64_t writers = 0;
    std::uint64_t sampled = 0;
    std::uint64_t applied = 0;
    std::uint64_t stale = 0;
  };
  [[nodiscard]] Counted count() const;
  void expect(const char* what, std::uint64_t is, std::uint64_t expected);

  Shared& shared_;
  std::uint64_t committed_ = 0;  ///< Steps committed at the last check.
  std::uint64_t evicted_ = 0;    ///< Steps evicted at the last check.
};

}  // namespace stress
