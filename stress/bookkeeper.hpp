#pragma once

#include "account.hpp"
#include "findings.hpp"
#include "options.hpp"
#include "scene.hpp"
#include "strategies.hpp"

#include <cstdint>
#include <deque>

namespace stress {

/// Compares what the buffer tells with what was done to it. One thread, while all others
/// stand still.
class Bookkeeper {
 public:
  Bookkeeper(const Options& options, const Strategies& strategies, Findings& findings)
      : options_(options), strategies_(strategies), findings_(findings) {}

  [[nodiscard]] Truth truth(const std::deque<ActorState>& actors,
                            const std::deque<LearnerState>& learners) const;

  /// `all_in`: everything decided has been ingested, so resident and pending steps are known
  /// exactly. Otherwise only the sum has to be right.
  void check(const Account& account, const Truth& truth, bool all_in);
  /// Checks only the rate limiter. Call it while everything decided has been ingested and nobody
  /// moves.
  void check_limit(const Account& account);

 private:
  void expect(const char* what, std::uint64_t is, std::uint64_t should_be);

  const Options& options_;
  const Strategies& strategies_;
  Findings& findings_;
  Account last_;
};

}  // namespace stress
