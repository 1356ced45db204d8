#pragma once

#include "base/waiters.hpp"

#include <chrono>
#include <cstdint>

#if !defined(__linux__)
#include <condition_variable>
#include <mutex>
#endif

namespace reprise::base {

using Clock = std::chrono::steady_clock;

/// now + timeout, saturating at the end of time.
Clock::time_point deadline_after(std::chrono::nanoseconds timeout) noexcept;

/// Sleeping and waking without a lock on the waking side. Any thread. `Waiters` has the protocol;
/// this class adds the sleep.
class Event {
 public:
  class Registration {
   public:
    explicit Registration(Event& event) noexcept : event_(event) { event_.waiters_.enter(); }
    ~Registration() { event_.waiters_.leave(); }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

    /// Take the ticket, then look whether there is something to wait for, then wait.
    [[nodiscard]] std::uint32_t ticket() const noexcept { return event_.waiters_.ticket(); }
    /// Sleeps until a thread wakes after the ticket was taken, or until the deadline. May return
    /// early without reason.
    void wait(std::uint32_t ticket, Clock::time_point deadline) const noexcept;

   private:
    Event& event_;
  };

  /// Wakes if a thread is registered. Call it after the progress that a sleeper waits for, which
  /// has to be sequentially consistent or a read-modify-write of one word that both sides change
  /// (E1).
  void wake_registered() noexcept {
    if (waiters_.anybody()) {
      wake_all();
    }
  }

  /// As `wake_registered`, after progress that is only a release, such as a push on a foreign
  /// queue.
  void wake_registered_after_release() noexcept {
    if (waiters_.anybody_after_release()) {
      wake_all();
    }
  }

  /// Wakes every thread that holds an older ticket.
  void wake_all() noexcept;

  /// Relaxed: a hint for statistics.
  [[nodiscard]] std::uint32_t waiting() const noexcept { return waiters_.count(); }

 private:
  Waiters<StdSync> waiters_;
#if !defined(__linux__)
  std::mutex mutex_;
  std::condition_variable woken_;
#endif
};

}  // namespace reprise::base
