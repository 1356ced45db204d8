#pragma once

#include "account.hpp"
#include "findings.hpp"
#include "options.hpp"
#include "scene.hpp"

#include <cstdint>
#include <deque>

namespace stress {

/// Compares what an implementation tells with what was done to it. One thread, while all others
/// stand still.
class Bookkeeper {
 public:
  Bookkeeper(const Options& options, Findings& findings)
      : capacity_(options.capacity_steps), findings_(findings) {}

  [[nodiscard]] Truth truth(const std::deque<ActorState>& actors,
                            const std::deque<LearnerState>& learners) const;

  /// `all_in`: everything decided has been ingested, so that what is resident and pending is known
  /// exactly too. Otherwise the sum alone has to be right.
  void check(const Account& account, const Truth& truth, bool all_in);

 private:
  void expect(const char* what, std::uint64_t is, std::uint64_t should_be);

  const std::uint64_t capacity_;
  Findings& findings_;
  Account last_;
};

}  // namespace stress
