#include "measuring/replay_clock.hpp"

#include <algorithm>
#include <ctime>

namespace apex {
namespace {

std::chrono::nanoseconds core_time() noexcept {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// What an empty block reads.
std::chrono::nanoseconds measure_clock_cost() noexcept {
  auto least = std::chrono::nanoseconds::max();
  for (int i = 0; i < 100; ++i) {
    const auto start = core_time();
    least = std::min(least, core_time() - start);
  }
  return least;
}

}  // namespace

ReplayClock::ReplayClock(std::uint64_t seed)
    : random_(seed),
      wall_start_(std::chrono::steady_clock::now()),
      working_start_(core_time()),
      clock_cost_(measure_clock_cost()) {}

ReplayClock::Block::Block(ReplayClock& clock) noexcept
    : clock_(clock.random_.next() % kOneIn == 0 ? &clock : nullptr) {
  if (clock_ != nullptr) {
    start_ = core_time();
  }
}

ReplayClock::Block::~Block() {
  if (clock_ != nullptr) {
    clock_->timed_ += core_time() - start_ - clock_->clock_cost_;
  }
}

ReplayTime ReplayClock::time() const noexcept {
  return {.wall = std::chrono::steady_clock::now() - wall_start_,
          .working = core_time() - working_start_,
          .in_replay = timed_ * kOneIn};
}

}  // namespace apex
