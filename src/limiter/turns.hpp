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

/// Lets waiting calls in by turns at a gate of the rate limiter, the longest wait first (I12). Any
/// thread.
///
///  - A call that finds others waiting queues behind them, and only the first one asks the gate.
///  - It stays the first until it leaves, so a sampler draws what it was let in for before another
///    one asks.
///  - When it leaves, it may ask for those behind it, until one is refused. Writers do: waking many
///    of them one by one would take longer than room takes to come. It wakes those that are left,
///    and the next one asks for itself.
class Turns {
 public:
  /// The turn of one call; users derive what the gate needs from it.
  class Turn {
   public:
    Turn() = default;
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    /// Items for which a sampler asks writers; 0 if it lacks none. Set by the gate.
    std::size_t demand = 0;

   protected:
    ~Turn() = default;

   private:
    friend class Turns;

    // Guarded by the mutex of the turns.
    Turn* next_ = nullptr;
    bool queued_ = false;
    bool let_in_ = false;  ///< Set by a thread that left; the call then waits no more.
  };

  /// Threads behind the first in the queue sleep on this event.
  [[nodiscard]] base::Event& event() noexcept { return event_; }

  /// Whether a thread waits. Relaxed: a thread that misses one that has just come asks the gate as
  /// if it had called a moment before.
  [[nodiscard]] bool anybody() const noexcept { return anybody_.load(std::memory_order_relaxed); }

  /// The number of different items that the first call in the queue asks writers for. While there
  /// are fewer items, a ratio holds no writer; otherwise both sides would wait for ever if a batch
  /// takes more different items than the ratio lets writers bring.
  /// E1: seq_cst, a waiting writer's look; partner: publish.
  [[nodiscard]] std::size_t demand() const noexcept {
    return demand_.load(std::memory_order_seq_cst);
  }

  /// Queues the call, and sleeps until it is the first or was let in; otherwise returns why the
  /// wait ended.
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

  /// Queues the call of a thread that must not sleep; false if it would have to. The turn keeps its
  /// place until `leave`, so that no later call is let in before it.
  [[nodiscard]] bool enqueue(Turn& turn) noexcept { return join_queue(turn); }

  /// After `enqueue` or `wait_for_turn`: whether the call is let in. It may be called again;
  /// `gate(turn)` must not wait.
  template <class Gate>
  [[nodiscard]] bool ask(Turn& turn, Gate gate) noexcept {
    const base::MutexLock lock(mutex_);
    const bool let_in = turn.let_in_ || gate(turn);
    publish();
    return let_in;
  }

  /// Ends a turn, if the call has one; afterwards no other thread uses it. If it was the first,
  /// asks `gate(next)` for those behind it. Returns whether others were before it.
  template <class Gate>
  bool leave(Turn& turn, Gate gate) noexcept {
    bool others = false;
    bool behind = false;
    {
      const base::MutexLock lock(mutex_);
      behind = first_ != nullptr && first_ != &turn && !turn.let_in_;
      if (turn.queued_) {
        others = !behind && turn.next_ != nullptr;
        remove(turn);
        while (others && first_ != nullptr && gate(*first_)) {
          first_->let_in_ = true;
          remove(*first_);
        }
        publish();
      }
    }
    if (others) {
      event_.wake_registered();  // E1: the sleeper's look takes the mutex, too.
    }
    return behind;
  }
  bool leave(Turn& turn) noexcept {
    return leave(turn, [](const Turn& /*next*/) { return false; });
  }

 private:
  /// Queues the turn. Returns whether it is the first, or was let in.
  bool join_queue(Turn& turn) noexcept {
    const base::MutexLock lock(mutex_);
    if (!turn.queued_ && !turn.let_in_) {
      *find(nullptr) = &turn;
      turn.queued_ = true;
      publish();
    }
    return turn.let_in_ || first_ == &turn;
  }
  /// The link that points to a turn; for null, the last link.
  Turn** find(const Turn* turn) noexcept REPRISE_REQUIRES(mutex_) {
    Turn** at = &first_;
    while (*at != turn) {
      at = &(*at)->next_;
    }
    return at;
  }
  void remove(Turn& turn) noexcept REPRISE_REQUIRES(mutex_) {
    *find(&turn) = std::exchange(turn.next_, nullptr);
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
