#pragma once

#include "buffer/buffer_core.hpp"
#include "limiter/wait.hpp"

#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>

namespace reprise::writer {

/// The inserts (permissions to insert a step) that the rate limiter has granted to one writer and
/// that the writer has not used. The rate limiter grants several at once. One thread at a time.
class BookedInserts {
 public:
  explicit BookedInserts(buffer::BufferCore& core) noexcept
      : core_(core),
        left_(core.limiter().limits_inserts() ? 0 : std::numeric_limits<std::size_t>::max()) {}
  /// Returns the unused inserts for other writers; afterwards nothing else may be called.
  void give_back() noexcept {
    give_up_turn();
    core_.limiter().return_inserts(left_);
  }
  /// Gives up the place in the line of waiting writers that `poll` keeps, if it keeps one.
  void give_up_turn() noexcept {
    if (polled_turn_) {
      leave(*polled_turn_);
      polled_turn_.reset();
    }
  }

  [[nodiscard]] bool none() const noexcept { return left_ == 0; }
  void use_one() noexcept { --left_; }

  /// Waits until the writer has a granted insert. Returns nothing then, or why the wait ended
  /// before.
  [[nodiscard]] std::optional<limiter::WaitEnd> wait(limiter::WaitTerms& terms) noexcept {
    if (left_ == 0 && !core_.writer_turns.anybody()) {
      left_ = book();
    }
    if (left_ != 0) {
      return std::nullopt;
    }
    // The call joins the line of waiting writers before its wait is counted, so whoever sees the
    // wait in the statistics can rely on the call's place in the line.
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
    leave(booking);  // Inserts granted after the wait had ended are for the next call.
    return end;
  }

  /// Like `wait`, but never sleeps. Returns whether the writer has a granted insert. If not, it
  /// keeps its place in the line until a later `poll` finds one granted.
  [[nodiscard]] bool poll() noexcept {
    if (left_ == 0 && !polled_turn_ && !core_.writer_turns.anybody()) {
      left_ = book();
    }
    if (left_ != 0) {
      return true;
    }
    Booking& booking = polled_turn_ ? *polled_turn_ : polled_turn_.emplace();
    // Only the first in line asks. A writer that left may have got inserts for this one.
    if (core_.writer_turns.enqueue(booking) &&
        core_.writer_turns.ask(booking, [this](Turn& turn) { return book_for(turn); })) {
      leave(booking);
      polled_turn_.reset();
    }
    return left_ != 0;
  }

 private:
  using Turn = limiter::Turns::Turn;
  /// A writer's place in the line, and the inserts that were granted to the writer there.
  struct Booking : limiter::Turns::Turn {
    Booking() noexcept {}  // NOLINT(modernize-use-equals-default): clang has no other one here yet.
    std::size_t inserts = 0;
  };

  /// Leaves the line with the inserts granted there, and asks the rate limiter for the writers
  /// behind.
  void leave(Booking& booking) noexcept {
    core_.writer_turns.leave(booking, [this](Turn& next) { return book_for(next); });
    left_ += booking.inserts;
  }
  /// Waits, as the first writer of the line, until the rate limiter grants inserts. Returns nothing
  /// then, or why the wait ended before.
  [[nodiscard]] std::optional<limiter::WaitEnd> wait_for_booking(Booking& booking,
                                                                 limiter::Wait& wait) noexcept {
    counted_all_ = true;
    // I11: register, look again, only then sleep.
    const base::Event::Registration registration(core_.room_event);
    for (;;) {
      const std::uint32_t ticket = registration.ticket();
      if (core_.writer_turns.ask(booking, [this](Turn& turn) { return book_for(turn); })) {
        return std::nullopt;
      }
      if (const auto end = wait.over()) {
        return end;
      }
      wait.sleep(registration, ticket, counted_all_ ? kPollInterval : kShortPollInterval);
    }
  }

  /// Counts the items for the rate limiter. Before that it ingests pending rows: in every shard for
  /// a queue; for a ratio only as long as the count is so small that the ratio would hold no
  /// writer. If the lock of a shard is taken, rows may stay pending; then the count may be too
  /// small, `counted_all_` becomes false, and the number returned is large enough that the limiter
  /// does not grant inserts for a lack of items.
  [[nodiscard]] std::size_t look_for_items() noexcept {
    const limiter::Limiter& limiter = core_.limiter();
    const std::size_t enough = limiter.enough();
    const auto wanting = [this] { return core_.shards().items() < core_.sampler_turns.demand(); };
    counted_all_ = true;
    for (std::size_t s = 0; s < core_.shards().size(); ++s) {
      if (!limiter.is_queue() && core_.limiter_items() >= enough && !wanting()) {
        break;
      }
      // Once each shard's lock was held here, either the count is without the items that were drawn
      // for the last time, or their sampler sees this writer registered, and wakes it (E1).
      counted_all_ = core_.shards().help_ingest(s) && counted_all_;
    }
    if (!counted_all_) {
      return enough;
    }
    return !limiter.is_queue() && wanting() ? 0 : core_.limiter_items();
  }

  /// Asks the rate limiter for the inserts of a writer in the line. Returns whether it grants any.
  bool book_for(Turn& turn) noexcept {
    auto& booking = static_cast<Booking&>(turn);
    booking.inserts = book();
    return booking.inserts != 0;
  }
  /// Asks the rate limiter for inserts and returns how many it granted. After 0 the caller has to
  /// ask again: soon if `counted_all_` is false.
  [[nodiscard]] std::size_t book() noexcept {
    if (core_.closed()) {
      return 0;
    }
    counted_all_ = true;
    const std::size_t booked = core_.limiter().book_inserts([this] { return look_for_items(); });
    if (booked != 0 && !core_.limiter().is_queue()) {
      // Inserts booked are progress for samplers that are ahead of the ratio (E1).
      core_.items_event.wake_registered();
    }
    return booked;
  }

  /// The longest sleep between two requests. Evictions can bring a ratio below its minimum of
  /// items, so that it grants inserts, but an eviction wakes no writer.
  static constexpr std::chrono::nanoseconds kPollInterval = std::chrono::milliseconds(10);
  /// The longest sleep while another thread holds a shard's lock: unlocking wakes no writer.
  static constexpr std::chrono::nanoseconds kShortPollInterval = std::chrono::microseconds(100);

  buffer::BufferCore& core_;
  std::size_t left_;
  /// Whether the last request counted all items, because no shard's lock was taken.
  bool counted_all_ = true;
  std::optional<Booking> polled_turn_;  ///< The place in the line that `poll` keeps.
};

}  // namespace reprise::writer
