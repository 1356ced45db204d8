#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace bench {

/// Time stamps for events of nanoseconds: the processor's own counter if it runs at one speed in
/// all cores and states, scaled by a measurement at the start of the program; else
/// std::chrono::steady_clock. May be called from any thread.
class FastClock {
 public:
  // NOLINTBEGIN(readability-identifier-naming): the names that std::chrono gives a clock's parts.
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<FastClock>;
  static constexpr bool is_steady = true;
  // NOLINTEND(readability-identifier-naming)

  [[nodiscard]] static time_point now() noexcept {
#if defined(__x86_64__)
    if (kNanosecondsPerTick > 0.0) {
      // Signed, because another core's counter may be a little behind.
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
  /// Returns 0 if there is no such counter.
  [[nodiscard]] static double calibrate() noexcept;
  /// First value of the counter. Ticks are counted from it, so that they stay few enough for a
  /// double.
  static const std::uint64_t kOrigin;       // NOLINT(readability-identifier-naming): a constant.
  static const double kNanosecondsPerTick;  // NOLINT(readability-identifier-naming)
};

}  // namespace bench
