#pragma once

#include <reprise/wait_hook.hpp>

#include "base/event.hpp"
#include "base/life.hpp"
#include "limiter/wait_meter.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <thread>

namespace reprise::limiter {

/// Why a wait ended without what it waited for.
enum class WaitEnd : std::uint8_t { TimedOut, Stopped, Closed };

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

/// One wait of one thread. It is made after a look that found nothing, and it ends when it is
/// destroyed.
///
/// The thread first asks `refused`. Then it repeats: it registers with an event and takes a ticket,
/// looks for what it waits for, asks `over`, and only then sleeps (I11).
class Wait {
 public:
  /// `meter`: counts the wait; may be null. `event`: the event that the thread sleeps on, woken by
  /// a stop request; null if the thread only pauses.
  Wait(WaitTerms& terms, WaitMeter* meter, base::Event* event)
      : terms_(terms),
        refused_(terms.hook_ != nullptr && !terms.hook_->keep_waiting(std::chrono::nanoseconds(0))),
        meter_(refused_ ? nullptr : meter),
        start_(base::Clock::now()),
        now_(start_),
        ask_(start_ + kAskEvery),
        wake_on_stop_(terms.stop_, Wake{event}) {
    if (!terms.deadline_) {
      terms.deadline_ = base::deadline_after(terms.timeout_);
    }
    if (meter_ != nullptr) {
      meter_->begin(start_);
    }
  }
  ~Wait() {
    if (meter_ != nullptr) {
      meter_->end(waited(), end_ == WaitEnd::TimedOut, end_ == WaitEnd::Stopped);
    }
  }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  /// Whether the hook has refused to wait: when the wait was made, in which case no statistics
  /// count the wait, or at the last `over`.
  [[nodiscard]] bool refused() const noexcept { return refused_; }

  /// Why the wait is over, if it is. `sooner`: a time that ends the wait before the deadline. Call
  /// it after a look that found nothing, with no lock held, because it may ask the hook.
  [[nodiscard]] std::optional<WaitEnd> over(
      base::Clock::time_point sooner = base::Clock::time_point::max()) noexcept {
    now_ = base::Clock::now();
    end_.reset();
    if (terms_.life_ != nullptr && terms_.life_->closed()) {
      end_ = WaitEnd::Closed;
    } else if (terms_.stop_.stop_requested() || hook_refuses()) {
      end_ = WaitEnd::Stopped;
    } else if (now_ >= std::min(*terms_.deadline_, sooner)) {
      end_ = WaitEnd::TimedOut;
    }
    return end_;
  }
  /// Takes back the result of `over`, because a last look after it has found what the thread waited
  /// for.
  void found() noexcept { end_.reset(); }

  /// Sleeps until the event wakes the thread, or it is time to ask `over` again, or `look_again`
  /// has passed since the last `over`.
  void sleep(const base::Event::Registration& registration, std::uint32_t ticket,
             std::chrono::nanoseconds look_again = kNoTimeout) const noexcept {
    registration.wait(ticket, until(look_again));
  }
  /// Sleeps as `sleep` does, but without an event, so that nobody can wake the thread.
  void pause(std::chrono::nanoseconds look_again) const {
    std::this_thread::sleep_until(until(look_again));
  }

  [[nodiscard]] std::chrono::nanoseconds waited() const noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(base::Clock::now() - start_);
  }

 private:
  struct Wake {
    base::Event* event;
    void operator()() const noexcept {
      if (event != nullptr) {
        event->wake_all();
      }
    }
  };

  /// Asks the hook if it is time to. True if it refuses to wait on.
  bool hook_refuses() noexcept {
    if (terms_.hook_ == nullptr || now_ < ask_) {
      return false;
    }
    refused_ = !terms_.hook_->keep_waiting(now_ - start_);
    now_ = base::Clock::now();
    ask_ = now_ + kAskEvery;
    return refused_;
  }
  [[nodiscard]] base::Clock::time_point until(std::chrono::nanoseconds look_again) const noexcept {
    auto until = *terms_.deadline_;
    if (terms_.hook_ != nullptr) {
      until = std::min(until, ask_);
    }
    return look_again == kNoTimeout ? until : std::min(until, now_ + look_again);
  }

  static constexpr std::chrono::nanoseconds kAskEvery = std::chrono::milliseconds(50);

  WaitTerms& terms_;
  bool refused_;
  WaitMeter* const meter_;
  const base::Clock::time_point start_;
  base::Clock::time_point now_;  ///< Time of the last `over`.
  base::Clock::time_point ask_;  ///< When the hook is asked next.
  std::optional<WaitEnd> end_;
  const std::stop_callback<Wake> wake_on_stop_;
};

}  // namespace reprise::limiter
