#include "fast_clock.hpp"

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace bench {

const std::uint64_t FastClock::kOrigin = counter();
const double FastClock::kNanosecondsPerTick = calibrate();

double FastClock::calibrate() noexcept {
#if defined(__x86_64__)
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned kPowerManagement = 0x80000007U;  // The CPUID leaf that tells of the counter.
  // This bit of EDX tells that the rate of the counter never changes.
  constexpr unsigned kInvariantCounter = 1U << 8U;
  if (__get_cpuid(kPowerManagement, &eax, &ebx, &ecx, &edx) == 0 ||
      (edx & kInvariantCounter) == 0) {
    return 0.0;
  }
  using Steady = std::chrono::steady_clock;
  const Steady::time_point start = Steady::now();
  const std::uint64_t first = counter();
  Steady::time_point end = start;
  // 20 ms are long beside the some 50 ns of a clock call, so the rate is known to a millionth or
  // so.
  while (end - start < std::chrono::milliseconds(20)) {
    end = Steady::now();
  }
  const std::uint64_t last = counter();
  const std::chrono::duration<double, std::nano> took = end - start;
  return took.count() / static_cast<double>(last - first);
#else
  return 0.0;
#endif
}

}  // namespace bench
