#pragma once

#include <reprise/rate_limiter.hpp>

#include "base/event.hpp"
#include "base/life.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <thread>

namespace reprise::limiter {

/// Why a wait ended without success. Its numbers are indices of tables of answers.
enum class WaitEnd : std::uint8_t { TimedOut, Stopped, Closed };

/// Counts the waits of one kind. Any thread. Relaxed throughout, because no other data depends on
/// these statistics.
class WaitMeter {
 public:
  void begin(base::Clock::time_point start) noexcept {
    if (!anybody_waiting()) {
      first_start_.store(start.time_since_epoch().count(), std::memory_order_relaxed);
    }
    waiting_.fetch_add(1, std::memory_order_relaxed);
  }
  /// `why`: none if the thread found what it waited for.
  void end(std::chrono::nanoseconds waited, std::optional<WaitEnd> why) noexcept {
    const auto nanoseconds = static_cast<std::uint64_t>(waited.count());
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    waits_.fetch_add(1, std::memory_order_relaxed);
    timeouts_.fetch_add(why == WaitEnd::TimedOut ? 1 : 0, std::memory_order_relaxed);
    stops_.fetch_add(why == WaitEnd::Stopped ? 1 : 0, std::memory_order_relaxed);
    total_.fetch_add(nanoseconds, std::memory_order_relaxed);
    raise_longest(nanoseconds);
  }

  /// A snapshot; it may lag behind waits that are under way.
  [[nodiscard]] WaitStats stats() const noexcept {
    WaitStats stats;
    stats.waits = waits_.load(std::memory_order_relaxed);
    stats.timeouts = timeouts_.load(std::memory_order_relaxed);
    stats.stops = stops_.load(std::memory_order_relaxed);
    stats.waiting_now = waiting_.load(std::memory_order_relaxed);
    if (stats.waiting_now != 0) {
      const base::Clock::duration start(first_start_.load(std::memory_order_relaxed));
      stats.waiting_for = base::Clock::now().time_since_epoch() - start;
    }
    stats.total = std::chrono::nanoseconds(total_.load(std::memory_order_relaxed));
    stats.longest = std::chrono::nanoseconds(longest_.load(std::memory_order_relaxed));
    return stats;
  }

  /// Whether a thread waits. A hint: the answer may be stale.
  [[nodiscard]] bool anybody_waiting() const noexcept {
    return waiting_.load(std::memory_order_relaxed) != 0;
  }

 private:
  void raise_longest(std::uint64_t nanoseconds) noexcept {
    std::uint64_t longest = longest_.load(std::memory_order_relaxed);
    while (longest < nanoseconds &&
           !longest_.compare_exchange_weak(longest, nanoseconds, std::memory_order_relaxed)) {
    }
  }

  std::atomic<std::uint64_t> waits_{0};
  std::atomic<std::uint64_t> timeouts_{0};
  std::atomic<std::uint64_t> stops_{0};
  std::atomic<std::uint32_t> waiting_{0};
  /// When the number of waiting threads last rose from 0. It has no meaning while no thread waits.
  std::atomic<base::Clock::rep> first_start_{0};
  std::atomic<std::uint64_t> total_{0};    ///< Nanoseconds.
  std::atomic<std::uint64_t> longest_{0};  ///< Nanoseconds.
};

/// The conditions that end the waits of one call. The constructor reads no clock: the timeout
/// begins with the first wait of the call and is shared by all its waits.
class WaitTerms {
 public:
  /// `life`: null if closing does not end the waits. `hook` may be null. The arguments have to
  /// outlive this object.
  WaitTerms(const base::Life* life, std::chrono::nanoseconds timeout, const std::stop_token& stop,
            WaitHook* hook) noexcept
      : life_(life), timeout_(timeout), stop_(stop), hook_(hook) {}

 private:
  friend class Wait;

  const base::Life* const life_;
  const std::chrono::nanoseconds timeout_;
  const std::stop_token& stop_;
  WaitHook* const hook_;
  std::optional<base::Clock::time_point> deadline_;  ///< Set when the first wait begins.
};

/// One wait of one thread. A wait is made after the thread looked in vain for what it needs, and
/// ends when it is destroyed.
///
/// The thread first asks `refused`. Then it repeats: it registers with an event and takes a ticket,
/// looks again, asks `over`, and only then sleeps (I11).
class Wait {
 public:
  /// Asks the hook, starts the clock, and sets the deadline if this is the first wait of the call.
  /// `meter`: counts the wait; may be null. `event`, `other`: the events that the thread may sleep
  /// on, which a stop request wakes; null if the thread only pauses.
  Wait(WaitTerms& terms, WaitMeter* meter, base::Event* event, base::Event* other = nullptr)
      : terms_(terms),
        refused_(terms.hook_ != nullptr && !terms.hook_->keep_waiting(std::chrono::nanoseconds(0))),
        meter_(refused_ ? nullptr : meter),
        start_(base::Clock::now()),
        now_(start_),
        next_hook_call_(start_ + kHookInterval),
        deadline_(terms.deadline_ ? *terms.deadline_ : base::deadline_after(terms.timeout_)),
        wake_on_stop_(terms.stop_, Wake{{event, other}}) {
    terms.deadline_ = deadline_;
    if (meter_ != nullptr) {
      meter_->begin(start_);
    }
  }
  ~Wait() {
    if (meter_ != nullptr) {
      meter_->end(waited(), end_);
    }
  }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  /// Whether the hook has refused to wait, at the last `over` or when the wait was made. If it
  /// refused when the wait was made, no statistics count the wait.
  [[nodiscard]] bool refused() const noexcept { return refused_; }

  /// Why the wait is over; nothing if it goes on. `earlier_deadline`: a time that ends the wait
  /// before the deadline. Call it after a look that found nothing, with no lock held, because it
  /// may ask the hook.
  [[nodiscard]] std::optional<WaitEnd> over(
      base::Clock::time_point earlier_deadline = base::Clock::time_point::max()) noexcept {
    now_ = base::Clock::now();
    end_.reset();
    if (terms_.life_ != nullptr && terms_.life_->closed()) {
      end_ = WaitEnd::Closed;
    } else if (terms_.stop_.stop_requested() || hook_refuses()) {
      end_ = WaitEnd::Stopped;
    } else if (now_ >= std::min(deadline_, earlier_deadline)) {
      end_ = WaitEnd::TimedOut;
    }
    return end_;
  }
  /// Takes back the result of `over`, because after it the thread found what it waits for.
  void clear_end() noexcept { end_.reset(); }

  /// Sleeps until the event wakes the thread, or it is time to ask `over` again, or `poll_interval`
  /// has passed since the last `over`.
  void sleep(const base::Event::Registration& registration, std::uint32_t ticket,
             std::chrono::nanoseconds poll_interval = kNoTimeout) const noexcept {
    registration.wait(ticket, until(poll_interval));
  }
  /// Sleeps as `sleep` does, but without an event, so that nobody can wake the thread.
  void pause(std::chrono::nanoseconds poll_interval) const {
    std::this_thread::sleep_until(until(poll_interval));
  }

  /// How long `pause` would sleep, for a caller that sleeps on something else.
  [[nodiscard]] std::chrono::nanoseconds remaining_pause(
      std::chrono::nanoseconds poll_interval) const noexcept {
    return std::max(until(poll_interval) - now_, std::chrono::nanoseconds(0));
  }

  [[nodiscard]] std::chrono::nanoseconds waited() const noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(base::Clock::now() - start_);
  }

 private:
  struct Wake {
    std::array<base::Event*, 2> events;
    void operator()() const noexcept {
      for (base::Event* const event : events) {
        if (event != nullptr) {
          event->wake_all();
        }
      }
    }
  };

  /// Asks the hook if it is time to. Returns whether the hook refuses to wait on.
  bool hook_refuses() noexcept {
    if (terms_.hook_ == nullptr || now_ < next_hook_call_) {
      return false;
    }
    refused_ = !terms_.hook_->keep_waiting(now_ - start_);
    now_ = base::Clock::now();
    next_hook_call_ = now_ + kHookInterval;
    return refused_;
  }
  [[nodiscard]] base::Clock::time_point until(
      std::chrono::nanoseconds poll_interval) const noexcept {
    auto until = deadline_;
    if (terms_.hook_ != nullptr) {
      until = std::min(until, next_hook_call_);
    }
    return poll_interval == kNoTimeout ? until : std::min(until, now_ + poll_interval);
  }

  static constexpr std::chrono::nanoseconds kHookInterval = std::chrono::milliseconds(50);

  WaitTerms& terms_;
  bool refused_;
  WaitMeter* const meter_;
  const base::Clock::time_point start_;
  base::Clock::time_point now_;             ///< Time of the last `over`.
  base::Clock::time_point next_hook_call_;  ///< When the hook is asked next.
  const base::Clock::time_point deadline_;
  std::optional<WaitEnd> end_;
  const std::stop_callback<Wake> wake_on_stop_;
};

}  // namespace reprise::limiter
