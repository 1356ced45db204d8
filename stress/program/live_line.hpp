#pragma once

#include "testing/library.hpp"

#include <cstdio>

namespace stress {

struct Snapshot {
  std::uint64_t appends = 0;
  std::uint64_t batches = 0;
  std::uint64_t resident = 0;
  std::uint64_t violations = 0;
};

/// Each `show` prints a line with the state of the run; `due` says whether it is time for the next
/// line. One thread at a time.
class LiveLine {
 public:
  [[nodiscard]] bool due() const { return Clock::now() - shown_at_ >= std::chrono::seconds(2); }

  void show(const Snapshot& now) {
    const Clock::time_point time = Clock::now();
    const auto rate = [elapsed = seconds(time - shown_at_)](std::uint64_t from, std::uint64_t to) {
      return to > from && elapsed > 0.0 ? static_cast<double>(to - from) / elapsed : 0.0;
    };
    std::printf("%7.1f s  %.3g appends/s, %.3g batches/s, %llu resident, %llu violations\n",
                seconds(time - start_), rate(shown_.appends, now.appends),
                rate(shown_.batches, now.batches), static_cast<unsigned long long>(now.resident),
                static_cast<unsigned long long>(now.violations));
    std::fflush(stdout);
    shown_ = now;
    shown_at_ = time;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static double seconds(Clock::duration duration) {
    return std::chrono::duration<double>(duration).count();
  }

  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_at_ = start_;
  Snapshot shown_;
};

}  // namespace stress
