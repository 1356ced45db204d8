#pragma once

#include "base/sync.hpp"

#include <chrono>
#include <cstdint>

namespace reprise::base {

/// The lock-free part of an `Event`: the number of registered sleepers, and the epoch that every
/// wake advances. Any thread.
///
/// A sleeper enters, takes a ticket, looks once more whether it has to wait, and only then sleeps
/// while the epoch equals its ticket. A waker makes its progress (what the sleeper waits for), then
/// asks `anybody`, and if a sleeper is registered advances the epoch. Entering and looking on one
/// side, progress and asking on the other form Dekker's pattern (I11): all four are sequentially
/// consistent, or else the caller's two operations, look and progress, are acq_rel
/// read-modify-writes of one word.
template <class Sync>
class Waiters {
 public:
  using Word = typename Sync::template Atomic<std::uint32_t>;

  /// E1: seq_cst, ordered before the sleeper's last look; partner: anybody.
  void enter() noexcept { registered_.fetch_add(1, Order::SeqCst); }

  /// Relaxed: a waker that still sees the registration wakes no thread, which is harmless.
  void leave() noexcept { registered_.fetch_sub(1, Order::Relaxed); }

  /// E2: acquire; partner: advance. A thread with a later ticket sees what came before the wake.
  [[nodiscard]] std::uint32_t ticket() const noexcept { return epoch_.load(Order::Acquire); }

  /// Whether a thread has to be woken. Call it after the progress that a sleeper waits for.
  /// E1: seq_cst load, ordered after that progress; partner: enter.
  [[nodiscard]] bool anybody() const noexcept { return registered_.load(Order::SeqCst) != 0; }

  /// As `anybody`, after progress that is only a release, such as a push on another library's
  /// queue.
  /// E1: a read-modify-write: either it sees the registration, or the registration is later in the
  /// modification order of this word, and then the acquire part of `enter` sees the progress.
  [[nodiscard]] bool anybody_after_release() noexcept {
    return registered_.fetch_add(0, Order::Release) != 0;
  }

  /// Makes every ticket taken so far out of date.
  /// E2: release; partner: ticket. Later wakes continue the release sequence.
  void advance() noexcept { epoch_.fetch_add(1, Order::Release); }

  /// The number of registered threads. Relaxed: a hint for statistics.
  [[nodiscard]] std::uint32_t count() const noexcept { return registered_.load(Order::Relaxed); }

  /// The word on which the futex sleeps.
  [[nodiscard]] Word& epoch() noexcept { return epoch_; }

 private:
  Word registered_{0};
  Word epoch_{0};
};

using Clock = std::chrono::steady_clock;

/// now + timeout, saturating at the end of time.
Clock::time_point deadline_after(std::chrono::nanoseconds timeout) noexcept;

/// Sleeping and waking without a lock on the waking side, by a futex. Any thread. `Waiters` has the
/// protocol; this class adds the sleep.
class Event {
 public:
  /// Registers a sleeper for as long as it lives.
  class Registration {
   public:
    explicit Registration(Event& event) noexcept : event_(event) { event_.waiters_.enter(); }
    ~Registration() { event_.waiters_.leave(); }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

    /// Takes a ticket. After that look whether there is something to wait for, and then wait.
    [[nodiscard]] std::uint32_t ticket() const noexcept { return event_.waiters_.ticket(); }
    /// Sleeps until another thread wakes the event after the ticket was taken, or until the
    /// deadline. May return early without reason.
    void wait(std::uint32_t ticket, Clock::time_point deadline) const noexcept;

   private:
    Event& event_;
  };

  /// Wakes all sleepers if a thread is registered. Call it after the progress that a sleeper waits
  /// for, which has to be sequentially consistent or a read-modify-write of one word that both
  /// sides change (E1).
  void wake_registered() noexcept {
    if (waiters_.anybody()) {
      wake_all();
    }
  }

  /// As `wake_registered`, after progress that is only a release, such as a push on another
  /// library's queue.
  void wake_registered_after_release() noexcept {
    if (waiters_.anybody_after_release()) {
      wake_all();
    }
  }

  /// Wakes every thread that holds an older ticket.
  void wake_all() noexcept;

  /// The number of waiting threads. Relaxed: a hint for statistics.
  [[nodiscard]] std::uint32_t waiting() const noexcept { return waiters_.count(); }

 private:
  Waiters<StdSync> waiters_;
};

}  // namespace reprise::base
