#pragma once

#include "relacy_sync.hpp"
#include "rules.hpp"

#include <cstdint>
#include <optional>

namespace reprise::model {

using Waiters = base::Waiters<RelacySync>;

/// base::Event without its futex. The futex is assumed to compare the word with the ticket and
/// sleep in one step, and a wake to end every sleep. So a thread sleeps for ever if its ticket is
/// still the epoch when no other thread runs.
class Sleeper {
 public:
  /// Waker: Event::wake_registered.
  void wake_registered() {
    if (waiters_.anybody()) {
      waiters_.advance();
    }
  }
  /// Waker: Event::wake_registered_after_release.
  void wake_registered_after_release() {
    if (waiters_.anybody_after_release()) {
      waiters_.advance();
    }
  }
  /// Waker: Event::wake_all.
  void wake_all() { waiters_.advance(); }

  /// A waker that makes progress and then wakes.
  template <class Progress, class Wake>
  void progress_then_wake(Progress progress, Wake wake) {
    if (broken(Rule::ProgressBeforeWake)) {
      wake();
      progress();
    } else {
      progress();
      wake();
    }
  }

  /// Sleeper: registers, looks once more whether it has to wait, and sleeps if so.
  template <class Look>
  void wait_unless(Look look) {
    if (broken(Rule::RegisterBeforeLooking)) {
      const bool found = look();
      waiters_.enter();
      if (!found) {
        slept_on_ = waiters_.ticket();
      }
    } else if (broken(Rule::TicketBeforeLooking)) {
      waiters_.enter();
      const bool found = look();
      if (!found) {
        slept_on_ = waiters_.ticket();
      }
    } else {
      waiters_.enter();
      const std::uint32_t ticket = waiters_.ticket();
      if (!look()) {
        slept_on_ = ticket;
      }
    }
    if (!slept_on_) {
      waiters_.leave();
    }
  }

  /// Call it when no other thread runs and the sleeper has what it waits for.
  void expect_awake() {
    expect(!slept_on_ || *slept_on_ != waiters_.epoch().load(base::Order::Relaxed),
           "a wake was lost");
  }

 private:
  Waiters waiters_;
  std::optional<std::uint32_t> slept_on_;
};

}  // namespace reprise::model
