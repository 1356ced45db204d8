#pragma once

#include <chrono>

namespace reprise {

/// The longest timeout: wait until there is an answer or the buffer is closed.
inline constexpr std::chrono::nanoseconds kNoTimeout = std::chrono::nanoseconds::max();

/// Asked whether a call that has to wait is to do so, and about every 50 ms whether it is to go on:
/// for interpreters, which run signal handlers in the middle of a call that stays one wait.
///
/// It is asked on the thread of the call, with no lock held: it may use the buffer, through any
/// object but the one that waits. It must not throw. What it takes to answer counts as waited.
class WaitHook {
 public:
  WaitHook() = default;
  WaitHook(const WaitHook&) = delete;
  WaitHook& operator=(const WaitHook&) = delete;
  virtual ~WaitHook() = default;

  /// False ends the call as a stop request does. `waited` is 0 before the wait begins: a call that
  /// is ended then has tried once, and `Stats` does not count it among those that waited.
  [[nodiscard]] virtual bool keep_waiting(std::chrono::nanoseconds waited) noexcept = 0;
};

}  // namespace reprise
