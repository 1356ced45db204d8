#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace bench {

/// A clock for events that take nanoseconds. If the processor's counter runs at one rate in all
/// cores and power states, the clock is this counter, scaled by a measurement at the start of the
/// program; otherwise it is std::chrono::steady_clock. Any thread.
class FastClock {
 public:
  // NOLINTBEGIN(readability-identifier-naming): std::chrono prescribes these names of a clock.
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<FastClock>;
  static constexpr bool is_steady = true;
  // NOLINTEND(readability-identifier-naming)

  [[nodiscard]] static time_point now() noexcept {
#if defined(__x86_64__)
    if (kNanosecondsPerTick > 0.0) {
      // The difference is signed, because another core's counter may be slightly behind the origin.
      const auto ticks = static_cast<std::int64_t>(counter() - kOrigin);
      return time_point(
          duration(static_cast<rep>(static_cast<double>(ticks) * kNanosecondsPerTick)));
    }
#endif
    return time_point(
        std::chrono::duration_cast<duration>(std::chrono::steady_clock::now().time_since_epoch()));
  }

 private:
  [[nodiscard]] static std::uint64_t counter() noexcept {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return 0;
#endif
  }
  /// Returns the nanoseconds per tick of the counter, or 0 if its rate may change.
  [[nodiscard]] static double calibrate() noexcept;
  /// The counter's value at the start of the program. Ticks are counted from it, so that they are
  /// few enough for a double to hold exactly.
  static const std::uint64_t kOrigin;       // NOLINT(readability-identifier-naming): a constant.
  static const double kNanosecondsPerTick;  // NOLINT(readability-identifier-naming)
};

}  // namespace bench
