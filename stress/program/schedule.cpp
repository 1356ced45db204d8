#include "program/schedule.hpp"

#include "base/sync.hpp"

namespace stress {

#if defined(REPRISE_SCHEDULE_POINTS)

bool has_schedule_points() noexcept {
  return true;
}

void set_schedule(std::uint64_t seed) noexcept {
  reprise::base::set_schedule_seed(seed);
}

void enter_schedule(std::uint32_t part, std::uint32_t round, std::uint32_t life) noexcept {
  reprise::base::set_schedule_thread((std::uint64_t{part} << 20U ^ round) << 32U ^ life);
}

#else

bool has_schedule_points() noexcept {
  return false;
}

void set_schedule(std::uint64_t /*seed*/) noexcept {}

void enter_schedule(std::uint32_t /*part*/, std::uint32_t /*round*/,
                    std::uint32_t /*life*/) noexcept {}

#endif

}  // namespace stress
