#pragma once

#include "base/sync.hpp"

#include <cstdint>

namespace stress {

/// Whether this program was built with schedule points (CMake option REPRISE_SCHEDULE_POINTS).
/// Without them the functions below do nothing.
#if defined(REPRISE_SCHEDULE_POINTS)
inline constexpr bool kHasSchedulePoints = true;
#else
inline constexpr bool kHasSchedulePoints = false;
#endif

/// Seeds the schedule of the whole process; 0 turns all schedule points off.
inline void set_schedule([[maybe_unused]] std::uint64_t seed) noexcept {
#if defined(REPRISE_SCHEDULE_POINTS)
  reprise::base::set_schedule_seed(seed);
#endif
}

/// Tells the schedule which thread calls: the number of its actor or learner, the round, and its
/// life.
inline void enter_schedule([[maybe_unused]] std::uint32_t part,
                           [[maybe_unused]] std::uint32_t round,
                           [[maybe_unused]] std::uint32_t life) noexcept {
#if defined(REPRISE_SCHEDULE_POINTS)
  reprise::base::set_schedule_thread((std::uint64_t{part} << 20U ^ round) << 32U ^ life);
#endif
}

}  // namespace stress
