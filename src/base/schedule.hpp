#pragma once

#include <cstdint>

/// Schedule points, for tests alone: with the CMake option REPRISE_SCHEDULE_POINTS every operation
/// of the synchronisation policy and of `base::Mutex` is a place where its thread may give the
/// processor away or fall asleep for a moment, as a generator says that was seeded from the seed of
/// the schedule and the number of the thread. So the rare interleavings come often, and mostly come
/// again with their seed. Without the option nothing of it is left in the code.
namespace reprise::base {

#if defined(REPRISE_SCHEDULE_POINTS)

/// Here another thread may go first. Any thread.
void schedule_point() noexcept;

/// Begins another schedule; 0 makes all points empty. At first the seed is that of the environment
/// variable REPRISE_SCHEDULE_SEED, or 1. Threads take it up at their next point.
void set_schedule_seed(std::uint64_t seed) noexcept;

/// Gives the calling thread a number for the rest of its life, so that it is in the schedule what
/// it was the last time. Threads without one are numbered as they come to their first point.
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
