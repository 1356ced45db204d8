#pragma once

#include "measuring/evaluation.hpp"
#include "network.hpp"
#include "options.hpp"

#include <cstddef>
#include <cstdint>
#include <future>

namespace apex {

/// Judges published parameters on fresh seeds, in a thread of its own while training goes on:
/// first a screening, then, on other seeds, the final test.
///
/// Thread safety: one thread at a time. Destroying it waits for a trial under way.
class Judge {
 public:
  Judge(const Options& options, const NetworkBoard& board);

  /// Starts a trial of the newest parameters, unless one is under way.
  void start();
  /// True once a trial has ended well; the parameters that passed are then `final_score`'s.
  [[nodiscard]] bool passed();
  /// Puts the newest parameters to the final test now, after any trial under way.
  void judge_last();

  [[nodiscard]] const Score& final_score() const { return score_; }
  [[nodiscard]] std::size_t final_tests() const { return final_tests_; }

 private:
  bool try_newest();
  void run_final_test();

  const Options& options_;
  const NetworkBoard& board_;
  Network network_;
  FreshSeeds seeds_;
  std::uint64_t version_ = 0;
  Score score_;
  std::size_t final_tests_ = 0;
  std::future<bool> verdict_;  // While valid, the trial's thread alone uses the members above.
};

}  // namespace apex
