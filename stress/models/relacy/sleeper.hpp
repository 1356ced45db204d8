#pragma once

#include "relacy_sync.hpp"
#include "rules.hpp"

#include <cstdint>
#include <optional>

namespace reprise::model {

using Waiters = base::Waiters<RelacySync>;

/// Models base::Event without its futex. A sleeper takes a ticket, which is the event's epoch at
/// that moment; a wake advances the epoch. The futex is assumed to compare epoch and ticket and to
/// sleep in one step, and a wake to end every sleep. So a sleeper is lost if its ticket is still
/// the epoch when no other thread runs.
class Sleeper {
 public:
  /// Models Event::wake_registered.
  void wake_registered() {
    if (waiters_.anybody()) {
      waiters_.advance();
    }
  }
  /// Models Event::wake_registered_after_release.
  void wake_registered_after_release() {
    if (waiters_.anybody_after_release()) {
      waiters_.advance();
    }
  }
  /// Models Event::wake_all.
  void wake_all() { waiters_.advance(); }

  /// Models a thread that makes progress and then wakes the sleepers.
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

  /// Models a sleeper: it registers, looks once more, and sleeps unless `look` says that it need
  /// not wait.
  template <class Look>
  void wait_unless(Look look) {
    if (broken(Rule::RegisterBeforeLooking)) {
      const bool need_not_wait = look();
      waiters_.enter();
      if (!need_not_wait) {
        sleep_ticket_ = waiters_.ticket();
      }
    } else if (broken(Rule::TicketBeforeLooking)) {
      waiters_.enter();
      const bool need_not_wait = look();
      if (!need_not_wait) {
        sleep_ticket_ = waiters_.ticket();
      }
    } else {
      waiters_.enter();
      const std::uint32_t ticket = waiters_.ticket();
      if (!look()) {
        sleep_ticket_ = ticket;
      }
    }
    if (!sleep_ticket_) {
      waiters_.leave();
    }
  }

  /// Fails if the sleeper sleeps. Call it when no other thread runs and the sleeper need not wait.
  void expect_awake() {
    expect(!sleep_ticket_ || *sleep_ticket_ != waiters_.epoch().load(base::Order::Relaxed),
           "no wake is lost");
  }

 private:
  Waiters waiters_;
  std::optional<std::uint32_t> sleep_ticket_;
};

}  // namespace reprise::model
