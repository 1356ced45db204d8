#pragma once

#include "buffer/buffer_core.hpp"
#include "limiter/wait.hpp"

#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>

namespace reprise::writer {

/// Inserts that the rate limiter has granted one writer in advance, a block at a time. One thread
/// at a time.
class BookedInserts {
 public:
  explicit BookedInserts(buffer::BufferCore& core) noexcept
      : core_(core),
        left_(core.limiter().limits_inserts() ? 0 : std::numeric_limits<std::size_t>::max()) {}
  /// Gives the remaining inserts to other writers; afterwards nothing else may be called.
  void give_back() noexcept {
    give_up_turn();
    core_.limiter().return_inserts(left_);
  }
  /// Ends the turn that `poll` keeps, if there is one.
  void give_up_turn() noexcept {
    if (polled_turn_) {
      leave(*polled_turn_);
      polled_turn_.reset();
    }
  }

  [[nodiscard]] bool none() const noexcept { return left_ == 0; }
  void use_one() noexcept { --left_; }

  /// Waits for an insert; returns why there is none, or nothing.
  [[nodiscard]] std::optional<limiter::WaitEnd> wait(limiter::WaitTerms& terms) noexcept {
    bool known = true;
    if (left_ == 0 && !core_.writer_turns.anybody()) {
      left_ = book(known);
    }
    if (left_ != 0) {
      return std::nullopt;
    }
    // The call takes its turn before its wait is counted, so a call that is seen to wait has a
    // turn.
    Booking booking;
    static_cast<void>(core_.writer_turns.enqueue(booking));
    limiter::Wait wait(terms, &core_.writers_for_limiter, &core_.room_event,
                       &core_.writer_turns.event());
    std::optional<limiter::WaitEnd> end = wait.refused()
                                              ? limiter::WaitEnd::Stopped
                                              : core_.writer_turns.wait_for_turn(booking, wait);
    if (!end) {
      end = wait_for_booking(booking, wait);
    }
    leave(booking);  // Inserts that came too late for this call are for the next one.
    return end;
  }

  /// Like `wait`, for a thread that must not wait: false if there is no insert. The writer keeps
  /// its turn until there is one.
  [[nodiscard]] bool poll() noexcept {
    bool known = true;
    if (left_ == 0 && !polled_turn_ && !core_.writer_turns.anybody()) {
      left_ = book(known);
    }
    if (left_ != 0) {
      return true;
    }
    Booking& booking = polled_turn_ ? *polled_turn_ : polled_turn_.emplace();
    if (core_.writer_turns.enqueue(booking) &&
        core_.writer_turns.ask(booking, [&](Turn& turn) { return book(turn, known); })) {
      leave(booking);
      polled_turn_.reset();
    }
    return left_ != 0;
  }

 private:
  using Turn = limiter::Turns::Turn;
  /// A writer's turn, and the inserts that it got.
  struct Booking : limiter::Turns::Turn {
    Booking() noexcept {}  // NOLINT(modernize-use-equals-default): clang has no other one here yet.
    std::size_t inserts = 0;
  };

  /// Ends a turn, asks the rate limiter for the turns after it, and takes the inserts that the
  /// ended one got.
  void leave(Booking& booking) noexcept {
    bool known = true;
    core_.writer_turns.leave(booking, [&](Turn& next) { return book(next, known); });
    left_ += booking.inserts;
  }
  /// Waits for inserts when it is the writer's turn.
  [[nodiscard]] std::optional<limiter::WaitEnd> wait_for_booking(Booking& booking,
                                                                 limiter::Wait& wait) noexcept {
    bool known = true;
    // I11: register, look again, only then sleep.
    const base::Event::Registration registration(core_.room_event);
    for (;;) {
      const std::uint32_t ticket = registration.ticket();
      if (core_.writer_turns.ask(booking, [&](Turn& turn) { return book(turn, known); })) {
        return std::nullopt;
      }
      if (const auto end = wait.over()) {
        return end;
      }
      wait.sleep(registration, ticket, known ? kPollInterval : kShortPollInterval);
    }
  }

  /// Returns the number of items for the rate limiter. It first ingests what is pending: before a
  /// ratio lets inserts through because there are few items, and in every shard before a queue lets
  /// any through. If a shard's lock is taken, there may be more items than were counted; then
  /// `known` becomes false, and the number returned lets nothing through for lack of items.
  [[nodiscard]] std::size_t look_for_items(bool& known) noexcept {
    const limiter::Limiter& limiter = core_.limiter();
    const std::size_t enough = limiter.enough();
    const auto wanting = [this] { return core_.shards().items() < core_.sampler_turns.demand(); };
    known = true;
    for (std::size_t s = 0; s < core_.shards().size(); ++s) {
      if (!limiter.is_queue() && core_.limiter_items() >= enough && !wanting()) {
        break;
      }
      // After all shards' locks were taken, either the count lacks the items that were drawn for
      // the last time, or their sampler sees that this writer is registered, and wakes it (E1).
      known = core_.shards().help_ingest(s) && known;
    }
    if (!known) {
      return enough;
    }
    return !limiter.is_queue() && wanting() ? 0 : core_.limiter_items();
  }

  bool book(Turn& turn, bool& known) noexcept {
    return (static_cast<Booking&>(turn).inserts = book(known)) != 0;
  }
  /// Asks the rate limiter for a block of inserts. If it gives none, it has to be asked again, soon
  /// unless `known`.
  [[nodiscard]] std::size_t book(bool& known) noexcept {
    if (core_.closed()) {
      return 0;
    }
    known = true;
    const std::size_t booked = core_.limiter().book_inserts([&] { return look_for_items(known); });
    if (booked != 0 && !core_.limiter().is_queue()) {
      // Inserts booked are progress for samplers that are ahead of the ratio (E1).
      core_.items_event.wake_registered();
    }
    return booked;
  }

  /// The longest sleep between two requests: eviction below the minimum of a ratio lets inserts
  /// through, and wakes nobody.
  static constexpr std::chrono::nanoseconds kPollInterval = std::chrono::milliseconds(10);
  /// The longest sleep while another thread holds a shard's lock, because its release wakes nobody.
  static constexpr std::chrono::nanoseconds kShortPollInterval = std::chrono::microseconds(100);

  buffer::BufferCore& core_;
  std::size_t left_;
  std::optional<Booking> polled_turn_;  ///< The turn that `poll` keeps.
};

}  // namespace reprise::writer
