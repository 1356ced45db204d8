#pragma once

#include <chrono>

namespace reprise {

/// The longest timeout: wait until there is an answer or the buffer is closed.
inline constexpr std::chrono::nanoseconds kNoTimeout = std::chrono::nanoseconds::max();

/// Decides whether a call waits, and about every 50 ms whether it continues. Interpreters need it,
/// because they run signal handlers in the middle of a call that stays one wait.
///
/// It is called on the thread of the call, without a lock: it may use the buffer, through any
/// object except the one that waits. It must not throw. Its own time counts as waited.
class WaitHook {
 public:
  WaitHook() = default;
  WaitHook(const WaitHook&) = delete;
  WaitHook& operator=(const WaitHook&) = delete;
  virtual ~WaitHook() = default;

  /// False ends the call as a stop request does. `waited` is 0 before the wait begins: a call that
  /// is ended then has tried once, and `Stats` does not count it as a wait.
  [[nodiscard]] virtual bool keep_waiting(std::chrono::nanoseconds waited) noexcept = 0;
};

}  // namespace reprise
