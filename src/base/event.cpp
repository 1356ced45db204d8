#include "base/event.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace reprise::base {

Clock::time_point deadline_after(std::chrono::nanoseconds timeout) noexcept {
  const auto now = Clock::now();
  const auto left =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::time_point::max() - now);
  return timeout >= left ? Clock::time_point::max() : now + timeout;
}

// The kernel reads the atomic itself as its 32-bit word.
static_assert(sizeof(Waiters<StdSync>::Word) == sizeof(std::uint32_t));

void Event::Registration::wait(std::uint32_t ticket, Clock::time_point deadline) const noexcept {
  // Waiting an hour at a time keeps the arithmetic far from overflow; the caller waits in a loop.
  const auto left =
      std::clamp(std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now()),
                 std::chrono::nanoseconds(0), std::chrono::nanoseconds(std::chrono::hours(1)));
  if (left.count() == 0) {
    return;
  }
  timespec relative{};
  relative.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000);
  relative.tv_nsec = static_cast<long>(left.count() % 1'000'000'000);
  // The kernel compares the word with the ticket before it sleeps, so a wake between ticket and
  // wait is not lost.
  syscall(SYS_futex, &event_.waiters_.epoch(), FUTEX_WAIT_PRIVATE, ticket, &relative, nullptr, 0);
}

void Event::wake_all() noexcept {
  waiters_.advance();
  syscall(SYS_futex, &waiters_.epoch(), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace reprise::base
