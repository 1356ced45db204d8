#pragma once

#include "buffer/buffer_core.hpp"
#include "limiter/wait.hpp"

#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>

namespace reprise::writer {

/// Inserts that the rate limiter has let one writer make in advance, a block at a time. One thread
/// at a time.
class BookedInserts {
 public:
  explicit BookedInserts(buffer::BufferCore& core) noexcept
      : core_(core),
        left_(core.limiter().limits_inserts() ? 0 : std::numeric_limits<std::size_t>::max()) {}
  /// Lets other writers have what is left; afterwards nothing else may be called.
  void give_back() noexcept { core_.limiter().return_inserts(left_); }

  [[nodiscard]] bool none() const noexcept { return left_ == 0; }
  void use_one() noexcept { --left_; }

  /// Nothing once there is an insert, else why there is none.
  [[nodiscard]] std::optional<limiter::WaitEnd> wait(limiter::WaitTerms& terms) noexcept {
    bool known = true;
    if (left_ != 0 || book(known)) {
      return std::nullopt;
    }
    limiter::Wait wait(terms, &core_.writers_for_limiter, &core_.room_event);
    if (wait.refused()) {
      return limiter::WaitEnd::Stopped;
    }
    // I11: register, look again, only then sleep.
    const base::Event::Registration registration(core_.room_event);
    for (;;) {
      const std::uint32_t ticket = registration.ticket();
      if (!core_.closed() && book(known)) {
        return std::nullopt;
      }
      if (const auto end = wait.over()) {
        return end;
      }
      wait.sleep(registration, ticket, known ? kLookAgain : kLookAgainSoon);
    }
  }

 private:
  /// Items that the rate limiter goes by; none where samplers wait for more of them. Those that
  /// nobody has ingested do not count yet, so a writer looks for them first: before a ratio lets
  /// inserts through for want of items, and in every shard before a queue lets any through. Where
  /// somebody holds a lock there may be enough of them, and nothing is assumed in the writer's
  /// favour; then `known` is false.
  [[nodiscard]] std::size_t look_for_items(bool& known) noexcept {
    const limiter::Limiter& limiter = core_.limiter();
    const std::size_t enough = limiter.enough();
    const auto wanting = [this] { return core_.shards().items() < core_.demand.items(); };
    known = true;
    for (std::size_t s = 0; s < core_.shards().size(); ++s) {
      if (!limiter.is_queue() && core_.counted() >= enough && !wanting()) {
        break;
      }
      // With the locks of all shards taken, items drawn for the last time are missing in the count,
      // or their sampler sees who is registered (E1).
      known = core_.shards().help(s) && known;
    }
    if (!known) {
      return enough;
    }
    return !limiter.is_queue() && wanting() ? 0 : core_.counted();
  }

  /// Asks the rate limiter for a block of inserts. False if it has to be asked again: soon, unless
  /// `known`.
  bool book(bool& known) noexcept {
    known = true;
    left_ = core_.limiter().book_inserts([&] { return look_for_items(known); });
    if (left_ != 0 && !core_.limiter().is_queue()) {
      // Inserts booked are progress for samplers that are ahead of the ratio (E1).
      core_.items_event.wake_registered();
    }
    return left_ != 0;
  }

  /// Eviction below the minimum of a ratio lets inserts through without a wake.
  static constexpr std::chrono::nanoseconds kLookAgain = std::chrono::milliseconds(10);
  /// While somebody holds a lock; nobody wakes for letting go of it.
  static constexpr std::chrono::nanoseconds kLookAgainSoon = std::chrono::microseconds(100);

  buffer::BufferCore& core_;
  std::size_t left_;
};

}  // namespace reprise::writer
