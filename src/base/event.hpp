#pragma once

#include <atomic>
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

/// Sleeping and waking without a lock on the waking side. Any thread.
///
/// A sleeper registers, takes a ticket, looks once more whether it has to wait at all, and only
/// then waits; a waker makes its progress, then calls `wake_registered`. Registration and that
/// look, progress and `waiters_` form Dekker's pattern: all four are sequentially consistent
/// (the last look and the progress are the caller's own operations, I11).
class Event {
 public:
  class Registration {
   public:
    /// E1: seq_cst, ordered before the sleeper's last look; partner: wake_registered.
    explicit Registration(Event& event) noexcept : event_(event) {
      event_.waiters_.fetch_add(1, std::memory_order_seq_cst);
    }
    /// Relaxed: a waker that still sees the registration wakes nobody, harmlessly.
    ~Registration() { event_.waiters_.fetch_sub(1, std::memory_order_relaxed); }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

    /// E2: acquire; partner: the release half of the increment in wake_all.
    [[nodiscard]] std::uint32_t ticket() const noexcept {
      return event_.epoch_.load(std::memory_order_acquire);
    }
    /// Sleeps until somebody wakes after the ticket was taken, or until the deadline. May return
    /// early without reason.
    void wait(std::uint32_t ticket, Clock::time_point deadline) const noexcept;

   private:
    Event& event_;
  };

  /// Wakes if anybody is registered. Call after the progress that a sleeper waits for.
  /// E1: seq_cst load, ordered after that progress; partner: Registration.
  void wake_registered() noexcept {
    if (waiters_.load(std::memory_order_seq_cst) != 0) {
      wake_all();
    }
  }

  /// The same after progress that is only a release, such as a push on a foreign queue.
  /// E1: an acq_rel read-modify-write: either it sees the registration, or the registration comes
  /// later in the order of this one word and then sees the progress.
  void wake_registered_after_release() noexcept {
    if (waiters_.fetch_add(0, std::memory_order_acq_rel) != 0) {
      wake_all();
    }
  }

  /// Wakes every thread that holds an older ticket.
  void wake_all() noexcept;

  /// Relaxed: a hint for statistics and courtesy.
  [[nodiscard]] std::uint32_t waiting() const noexcept {
    return waiters_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> waiters_{0};
  std::atomic<std::uint32_t> epoch_{0};
#if !defined(__linux__)
  std::mutex mutex_;
  std::condition_variable woken_;
#endif
};

}  // namespace reprise::base
