#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

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

/// Counts and durations of one kind of wait since the buffer was made.
struct WaitStats {
  std::uint64_t waits = 0;      ///< Calls that had to wait at least once.
  std::uint64_t timeouts = 0;   ///< Waits that a timeout ended.
  std::uint64_t stops = 0;      ///< Waits that a stop token or a hook ended.
  std::size_t waiting_now = 0;  ///< Calls waiting at this moment.
  /// Time for which at least one thread has been waiting without a break; 0 if none is.
  std::chrono::nanoseconds waiting_for{0};
  std::chrono::nanoseconds total{0};    ///< Sum of the waits that have ended.
  std::chrono::nanoseconds longest{0};  ///< Longest wait that has ended.
};

}  // namespace reprise
