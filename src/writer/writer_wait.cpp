#include "writer/writer_core.hpp"

#include <chrono>

namespace reprise::writer {
namespace {

/// A pause before the next look, because an eviction that leaves fewer items than the minimum of a
/// ratio opens the gate and wakes nobody.
constexpr std::chrono::nanoseconds kLookAgain = std::chrono::milliseconds(10);
/// The pause while another thread holds a lock, because its release wakes nobody.
constexpr std::chrono::nanoseconds kLookAgainSoon = std::chrono::microseconds(100);

}  // namespace

/// Waits for a chunk and a booked insert. Returns nothing once the writer has both, or why the step
/// is not taken.
std::optional<CommitStatus> WriterCore::wait_for_room() {
  limiter::WaitTerms terms(&life_, timeout_, stop_, hook_);
  std::optional<limiter::WaitEnd> end = wait_for_chunk(terms);
  if (end && disk_error_ != 0) {
    refuse_disk();
  }
  if (!end) {
    end = wait_for_inserts(terms);
  }
  if (!end) {
    return std::nullopt;
  }
  switch (*end) {
    case limiter::WaitEnd::Closed:
      return CommitStatus::Closed;
    case limiter::WaitEnd::Stopped:
      return CommitStatus::Stopped;
    case limiter::WaitEnd::TimedOut:
      break;
  }
  return CommitStatus::TimedOut;
}

/// The size that the rate limiter uses, or 0 if samplers of a ratio wait for more items. Items that
/// are not ingested do not count yet, so the writer ingests first: for a ratio until there are
/// enough items, for a queue in every shard. If another thread holds a shard's lock, its items are
/// not known: then `known` is false, and the answer is that there are enough, which books nothing
/// in the writer's favour.
std::size_t WriterCore::look_for_items(bool& known) noexcept {
  const limiter::Limiter& limiter = core_->limiter();
  const std::size_t enough = limiter.enough();
  const auto wanting = [this] { return core_->shards().items() < core_->demand.items(); };
  known = true;
  for (std::size_t s = 0; s < core_->shards().size(); ++s) {
    if (!limiter.is_queue() && core_->counted() >= enough && !wanting()) {
      break;
    }
    // E1: this takes the lock of each shard. So items that were drawn for the last time are missing
    // in the count, or their sampler sees this writer's registration.
    known = core_->shards().help(s) && known;
  }
  if (!known) {
    return enough;
  }
  return !limiter.is_queue() && wanting() ? 0 : core_->counted();
}

/// Asks the rate limiter for a block of inserts. False if the writer has to ask again, and if
/// `known` is false too, soon.
bool WriterCore::book_inserts(bool& known) noexcept {
  known = true;
  booked_ = core_->limiter().book_inserts([&] { return look_for_items(known); });
  if (booked_ != 0 && !core_->limiter().is_queue()) {
    // E1: booked inserts are progress for samplers that are ahead of the ratio.
    core_->items_event.wake_registered();
  }
  return booked_ != 0;
}

/// Waits until the rate limiter has booked a block of inserts. Returns nothing then, or why it has
/// not.
std::optional<limiter::WaitEnd> WriterCore::wait_for_inserts(limiter::WaitTerms& terms) noexcept {
  bool known = true;
  if (booked_ != 0 || book_inserts(known)) {
    return std::nullopt;
  }
  limiter::Wait wait(terms, &core_->writers_for_limiter, &core_->room_event);
  if (wait.refused()) {
    return limiter::WaitEnd::Stopped;
  }
  // I11: register, look again, only then sleep.
  const base::Event::Registration registration(core_->room_event);
  for (;;) {
    const std::uint32_t ticket = registration.ticket();
    if (!life_.closed() && book_inserts(known)) {
      return std::nullopt;
    }
    if (const auto end = wait.over()) {
      return end;
    }
    wait.sleep(registration, ticket, known ? kLookAgain : kLookAgainSoon);
  }
}

}  // namespace reprise::writer
