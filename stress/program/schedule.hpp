#pragma once

#include <cstdint>

namespace stress {

/// Whether this program was built with schedule points (CMake option REPRISE_SCHEDULE_POINTS).
[[nodiscard]] bool has_schedule_points() noexcept;

/// Seeds the schedule of the whole process; 0 makes all points empty. Does nothing in a program
/// without points.
void set_schedule(std::uint64_t seed) noexcept;

/// Gives the calling thread its place in the schedule: its number (an actor or learner),
/// the round, and the number of its life.
void enter_schedule(std::uint32_t part, std::uint32_t round, std::uint32_t life) noexcept;

}  // namespace stress
