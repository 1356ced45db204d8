#pragma once

#include "base/event.hpp"
#include "base/mutex.hpp"
#include "limiter/wait.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace reprise::limiter {

/// The line of calls that wait at a gate of the rate limiter: the call that waits longest passes
/// first (I12). Any thread.
///
///  - A call that finds others waiting stands in line behind them, and only the first call asks the
///    gate.
///  - A call stays the first until it leaves the line, so a sampler draws the items that it was
///    admitted for before the next sampler asks.
///  - A call that leaves may ask for the calls behind it, until the gate refuses one. Writers do:
///    waking many writers one by one would take longer than room takes to come. The call wakes
///    those that are left, and the first of these asks for itself.
class Turns {
 public:
  /// The place in line of one call; users derive from this class what their gate needs.
  class Turn {
   public:
    Turn() = default;
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    /// The number of items that a sampler asks writers for; 0 if it lacks none. Set by the gate.
    std::size_t demand = 0;

   protected:
    ~Turn() = default;

   private:
    friend class Turns;

    // Guarded by the mutex of the turns.
    Turn* next_ = nullptr;
    bool queued_ = false;
    bool admitted_ = false;  ///< A call that left got the gate's yes for this call.
  };

  /// Threads behind the first in line sleep on this event.
  [[nodiscard]] base::Event& event() noexcept { return event_; }

  /// Whether a call is in line. Relaxed: a thread that misses a call that has just come asks the
  /// gate as if it had asked a moment before.
  [[nodiscard]] bool anybody() const noexcept { return anybody_.load(std::memory_order_relaxed); }

  /// The number of different items that the first call in line asks writers for. While there are
  /// fewer items, a ratio holds no writer; otherwise both sides would wait for ever if a batch
  /// takes more different items than the ratio lets writers bring.
  /// E1: seq_cst, a waiting writer's look; partner: publish.
  [[nodiscard]] std::size_t demand() const noexcept {
    return demand_.load(std::memory_order_seq_cst);
  }

  /// Puts the call in line, and sleeps until it is the first or was admitted. Returns nothing then,
  /// and otherwise why the wait ended.
  [[nodiscard]] std::optional<WaitEnd> wait_for_turn(Turn& turn, Wait& wait) noexcept {
    if (join_queue(turn)) {
      return std::nullopt;
    }
    // I11: register, look again, only then sleep.
    const base::Event::Registration registration(event_);
    for (;;) {
      const std::uint32_t ticket = registration.ticket();
      if (join_queue(turn)) {
        return std::nullopt;
      }
      if (const auto end = wait.over()) {
        return end;
      }
      wait.sleep(registration, ticket);
    }
  }

  /// Puts the call of a thread that must not sleep in line; false if the call would have to wait.
  /// The turn keeps its place until `leave`, so that no later call is admitted before it.
  [[nodiscard]] bool enqueue(Turn& turn) noexcept { return join_queue(turn); }

  /// Called after `enqueue` or `wait_for_turn`, also repeatedly: returns whether the call is
  /// admitted, by a call that left or by `gate(turn)`, which must not wait.
  template <class Gate>
  [[nodiscard]] bool ask(Turn& turn, Gate gate) noexcept {
    const base::MutexLock lock(mutex_);
    const bool admitted = turn.admitted_ || gate(turn);
    publish();
    return admitted;
  }

  /// Takes the call out of the line, if it is there; afterwards no other thread uses the turn. If
  /// the call was the first, asks `gate(next)` for the calls behind it. Returns whether others were
  /// before it.
  template <class Gate>
  bool leave(Turn& turn, Gate gate) noexcept {
    bool wakes_others = false;
    bool was_behind = false;
    {
      const base::MutexLock lock(mutex_);
      was_behind = first_ != nullptr && first_ != &turn && !turn.admitted_;
      if (turn.queued_) {
        wakes_others = !was_behind && turn.next_ != nullptr;
        remove(turn);
        while (wakes_others && first_ != nullptr && gate(*first_)) {
          first_->admitted_ = true;
          remove(*first_);
        }
        publish();
      }
    }
    if (wakes_others) {
      event_.wake_registered();  // E1: a sleeper looks under the mutex.
    }
    return was_behind;
  }
  bool leave(Turn& turn) noexcept {
    return leave(turn, [](const Turn& /*next*/) { return false; });
  }

 private:
  /// Puts the turn in line, once. Returns whether it is the first, or was admitted.
  bool join_queue(Turn& turn) noexcept {
    const base::MutexLock lock(mutex_);
    if (!turn.queued_ && !turn.admitted_) {
      *link_to(nullptr) = &turn;
      turn.queued_ = true;
      publish();
    }
    return turn.admitted_ || first_ == &turn;
  }
  /// The pointer in the list that points to a turn; for null, the last one.
  Turn** link_to(const Turn* turn) noexcept REPRISE_REQUIRES(mutex_) {
    Turn** at = &first_;
    while (*at != turn) {
      at = &(*at)->next_;
    }
    return at;
  }
  void remove(Turn& turn) noexcept REPRISE_REQUIRES(mutex_) {
    *link_to(&turn) = std::exchange(turn.next_, nullptr);
    turn.queued_ = false;
  }
  void publish() noexcept REPRISE_REQUIRES(mutex_) {
    anybody_.store(first_ != nullptr, std::memory_order_relaxed);
    // E1: seq_cst, progress of waiting writers; partner: demand.
    demand_.store(first_ == nullptr ? 0 : first_->demand, std::memory_order_seq_cst);
  }

  base::Event event_;
  std::atomic<bool> anybody_{false};
  std::atomic<std::size_t> demand_{0};
  base::Mutex mutex_;
  Turn* first_ REPRISE_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace reprise::limiter
