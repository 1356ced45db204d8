#include "limiter/hooked_wait.hpp"
#include "writer/writer_core.hpp"

#include <algorithm>
#include <chrono>

namespace reprise::writer {
namespace {

/// Eviction below the minimum of a ratio lets inserts through without a wake.
constexpr std::chrono::nanoseconds kLookAgain = std::chrono::milliseconds(10);
/// While somebody holds a lock; nobody wakes for letting go of it.
constexpr std::chrono::nanoseconds kLookAgainSoon = std::chrono::microseconds(100);

}  // namespace

/// Items that the rate limiter goes by; none where samplers wait for more of them. Those that
/// nobody has ingested do not count yet, so a writer looks for them first: before a ratio lets
/// inserts through for want of items, and in every shard before a queue lets any through. Where
/// somebody holds a lock there may be enough of them, and nothing is assumed in the writer's
/// favour; then `known` is false.
std::size_t WriterCore::look_for_items(bool& known) noexcept {
  const limiter::Limiter& limiter = core_->limiter();
  const std::size_t enough = limiter.enough();
  const auto wanting = [this] { return core_->shards().items() < core_->demand.items(); };
  known = true;
  for (std::size_t s = 0; s < core_->shards().size(); ++s) {
    if (!limiter.is_queue() && core_->counted() >= enough && !wanting()) {
      break;
    }
    // With the locks of all shards taken, items drawn for the last time are missing in the count,
    // or their sampler sees who is registered (E1).
    known = core_->shards().help(s) && known;
  }
  if (!known) {
    return enough;
  }
  return !limiter.is_queue() && wanting() ? 0 : core_->counted();
}

/// Asks the rate limiter for a block of inserts. False if it has to be asked again: soon, unless
/// `known`.
bool WriterCore::book_inserts(bool& known) noexcept {
  known = true;
  booked_ = core_->limiter().book_inserts([&] { return look_for_items(known); });
  if (booked_ != 0 && !core_->limiter().is_queue()) {
    // Inserts booked are progress for samplers that are ahead of the ratio (E1).
    core_->items_event.wake_registered();
  }
  return booked_ != 0;
}

/// True once the rate limiter has let a block of inserts through; false at the deadline, at a stop
/// request, when the hook is against waiting, or when the buffer is closed.
bool WriterCore::wait_for_inserts(base::Clock::time_point deadline) noexcept {
  bool known = true;
  if (booked_ != 0 || book_inserts(known)) {
    return true;
  }
  limiter::HookedWait hooked(hook_);
  refused_ = hooked.refused_to_begin();
  if (refused_) {
    return false;
  }
  limiter::WaitMeter::Wait wait(core_->writers_for_limiter);
  const std::stop_callback wake_on_stop(stop_, [this] { core_->room_event.wake_all(); });
  const base::Event::Registration registration(core_->room_event);
  for (;;) {
    const std::uint32_t ticket = registration.ticket();
    if (core_->closed()) {
      return false;
    }
    if (book_inserts(known)) {
      return true;
    }
    refused_ = hooked.refused();
    if (refused_ || stop_.stop_requested()) {
      wait.stopped();
      return false;
    }
    const auto now = base::Clock::now();
    if (now >= deadline) {
      wait.timed_out();
      return false;
    }
    registration.wait(
        ticket, hooked.until(std::min(deadline, now + (known ? kLookAgain : kLookAgainSoon))));
  }
}

}  // namespace reprise::writer
