#pragma once

#include <cstdint>

/// Schedule points, only for tests. With the CMake option REPRISE_SCHEDULE_POINTS, every operation
/// of the synchronisation policy and of `base::Mutex` is a point at which its thread may yield or
/// sleep. A generator decides, seeded from the seed of the schedule and the number of the thread.
/// So rare interleavings come often, and mostly come again with their seed. Without the option the
/// points are empty.
namespace reprise::base {

#if defined(REPRISE_SCHEDULE_POINTS)

/// Another thread may run first here. Any thread.
void schedule_point() noexcept;

/// Begins another schedule; 0 makes all points empty. The first seed is the environment variable
/// REPRISE_SCHEDULE_SEED, or 1. Threads use it from their next point on.
void set_schedule_seed(std::uint64_t seed) noexcept;

/// Gives the calling thread a number for the rest of its life, so that it has the same schedule in
/// the next run. Threads without a number get one at their first point.
void set_schedule_thread(std::uint64_t number) noexcept;

#else

inline void schedule_point() noexcept {}

#endif

/// A point before and one after an operation.
class SchedulePoints {
 public:
  SchedulePoints() noexcept { schedule_point(); }
  ~SchedulePoints() { schedule_point(); }
  SchedulePoints(const SchedulePoints&) = delete;
  SchedulePoints& operator=(const SchedulePoints&) = delete;
};

}  // namespace reprise::base
