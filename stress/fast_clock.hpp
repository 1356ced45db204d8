#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace stress {

/// Time stamps for what takes nanoseconds: the processor's own counter, where it runs at one speed
/// in all cores and states, scaled by a measurement at the start of the program; else
/// std::chrono::steady_clock. Any thread.
class FastClock {
 public:
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<FastClock>;
  static constexpr bool is_steady = true;

  [[nodiscard]] static time_point now() noexcept {
#if defined(__x86_64__)
    if (kNanosecondsPerTick > 0.0) {
      return time_point(
          duration(static_cast<rep>(static_cast<double>(__rdtsc()) * kNanosecondsPerTick)));
    }
#endif
    return time_point(
        std::chrono::duration_cast<duration>(std::chrono::steady_clock::now().time_since_epoch()));
  }

 private:
  /// 0: there is no such counter.
  [[nodiscard]] static double calibrate() noexcept;
  static const double kNanosecondsPerTick;
};

}  // namespace stress
