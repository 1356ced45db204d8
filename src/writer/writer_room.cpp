#include "base/check.hpp"
#include "writer/writer_core.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace reprise::writer {
namespace {

using storage::kNil;

/// How long a chunk that others may free is waited for once the disk has no room for a new one.
constexpr std::chrono::nanoseconds kDiskPatience = std::chrono::milliseconds(100);
/// How long a writer that ends an episode within its tail waits for a chunk before its open items
/// are given up.
constexpr std::chrono::nanoseconds kLastWait = std::chrono::seconds(1);

/// Rising pauses between a writer's attempts to get a chunk: it is not registered anywhere and
/// nobody wakes it, so it comes back by itself.
class BackOff {
 public:
  /// True once giving way has not helped for a while.
  bool pause(const limiter::Wait& wait) noexcept {
    if (tries_ < kYields) {
      ++tries_;
      std::this_thread::yield();
      return false;
    }
    pause_ = std::min(pause_ * 2, kLongest);
    wait.pause(pause_);
    return true;
  }

 private:
  static constexpr int kYields = 2;
  static constexpr std::chrono::nanoseconds kLongest = std::chrono::microseconds(1000);
  int tries_ = 0;
  std::chrono::nanoseconds pause_ = std::chrono::microseconds(5);
};

}  // namespace

WriterCore::~WriterCore() {
  if (core_->life().forked()) {
    return;  // The buffer belongs to another process, and its locks may be held for ever.
  }
  if (in_episode()) {
    end_truncated();
  }
  if (!in_tail()) {
    // An open chunk that the next writer could not even turn over in is closed instead, so at most
    // max_writers chunks are ever open.
    if (rows_left() < core_->window().min_chunk_rows()) {
      announce(true);
    } else {
      words_->cursor = row_;
      shard_->chunks().hand_over(chunk_);
    }
  }
  if (restored_chunk_ != kNil) {
    leave_restored_chunk();
  }
  if (core_->limiter().limits_inserts()) {
    core_->limiter().return_inserts(booked_);
  }
  core_->slots().note(slot_, {});
  core_->slots().give_back(slot_);
}

/// The chunk of a writer_position in which no episode was begun: for the next writer, who may
/// arrive in the middle of one, or closed.
void WriterCore::leave_restored_chunk() noexcept {
  shard::Shard& shard = core_->shards().of_chunk(restored_chunk_);
  if (chunk_rows_ - store_.chunk(restored_chunk_).cursor >= core_->window().min_chunk_rows()) {
    shard.chunks().hand_over(restored_chunk_);
  } else if (shard.ring(restored_chunk_, true)) {
    core_->items_event.wake_registered();
  }
}

std::byte* WriterCore::row(std::uint32_t index) noexcept {
  return in_tail() ? tail_.get() + index * store_.row_stride() : store_.row(chunk_, index);
}

std::uint32_t WriterCore::rows_left() const noexcept {
  return chunk_rows_ - row_;
}

/// Publishes what was decided and rings for it. With `closing` the chunk is let go for good in the
/// same ring, and must not be touched afterwards.
void WriterCore::announce(bool closing) noexcept {
  if (published_ == announced_ && !closing) {
    return;
  }
  storage::publish(words_->bell, published_);
  announced_ = published_;
  if (shard_->ring(chunk_, closing)) {
    // A push is the progress that a sleeping sampler waits for (E1).
    core_->items_event.wake_registered();
  }
  if (closing) {
    core_->counters.closed_chunks.fetch_add(1, std::memory_order_relaxed);
    chunk_ = kNil;
    row_ = 0;
    note_writer_position();
  }
}

/// What a writer after a load goes on from.
void WriterCore::note_writer_position() noexcept {
  core_->slots().note(slot_, {in_tail() ? restored_chunk_ : chunk_,
                              static_cast<std::uint32_t>(next_shard_), next_episode_});
}

/// Copies what the open items and the current step still need into the tail, in front. Returns
/// where the current row is there; rows before the open items are context.
std::uint32_t WriterCore::save_context() noexcept {
  const auto behind =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(behind_, position_ - open_));
  const std::uint32_t first = row_ - open_ - behind;
  REPRISE_ASSERT(first >= segment_);
  std::memcpy(tail_.get(), store_.row(chunk_, first), (row_ - first + 1) * store_.row_stride());
  return row_ - first;
}

/// Takes a chunk, if one is free or can be freed at once, and moves the tail into it.
bool WriterCore::adopt_chunk(bool urgent) noexcept {
  const std::uint32_t chunk = take_chunk(urgent);
  if (chunk == kNil) {
    return false;
  }
  // Between episodes everything written is decided, so a chunk handed over is published up to its
  // cursor.
  const std::uint32_t base = store_.chunk(chunk).cursor;
  published_ = announced_ = base;
  if (in_episode()) {
    REPRISE_ASSERT(row_ + 2 <= chunk_rows_ - base);
    // The next row travels too: the step under way may have been written there.
    std::memcpy(store_.row(chunk, base), tail_.get(), (row_ + 2) * store_.row_stride());
    std::fill_n(store_.priorities(chunk) + base, row_ - open_, storage::kNotAStep);
  }
  chunk_ = chunk;
  shard_ = &core_->shards().of_chunk(chunk);
  words_ = &store_.chunk(chunk);
  priorities_ = store_.priorities(chunk);
  item_numbers_ = store_.item_numbers(chunk, 0);
  segment_ = base;
  row_ += base;
  note_writer_position();
  if (in_episode()) {
    point_at_rows();
  }
  return true;
}

/// From the shards in turn, so that one writer fills the whole capacity and shards stay level.
///
/// Memory used before comes first, then room made in it, and then memory never touched, as much as
/// the capacity usually takes. In a full buffer the chunk that a writer closed in a shard waits
/// there, and makes room when the writer comes round to that shard again. The other shards are
/// tried when the next in turn is busy, and untouched memory beyond the usual only if `urgent`.
std::uint32_t WriterCore::take_chunk(bool urgent) noexcept {
  if (restored_chunk_ != kNil) {
    return std::exchange(restored_chunk_, kNil);
  }
  const std::size_t shards = core_->shards().size();
  const std::size_t home = next_shard_;
  const std::size_t usual = core_->usual_chunks();
  disk_error_ = 0;
  const auto open = [&](std::size_t s) { return core_->shards()[s].chunks().take_open(); };
  const auto recycled = [&](std::size_t s) { return core_->shards()[s].chunks().take_recycled(); };
  const auto helped = [&](std::size_t s) {
    core_->shards().help(s);
    return core_->shards()[s].chunks().take_recycled();
  };
  const auto fresh = [&](std::size_t s) {
    const bool allowed = urgent || core_->shards()[s].chunks().touched() < usual;
    return allowed ? core_->shards()[s].chunks().take_fresh(disk_error_) : kNil;
  };
  std::uint32_t chunk = kNil;
  const auto try_shards = [&](std::size_t count, const auto& take) {
    for (std::size_t i = 0; i < count && chunk == kNil; ++i) {
      const std::size_t index = (home + i) % shards;
      chunk = take(index);
      if (chunk != kNil) {
        next_shard_ = (index + 1) % shards;
      }
    }
  };
  try_shards(shards, open);
  try_shards(1, recycled);
  try_shards(1, helped);
  try_shards(1, fresh);
  try_shards(shards, recycled);
  try_shards(shards, helped);
  try_shards(shards, fresh);
  return chunk;
}

/// Nothing once a chunk is in hand, else why there is none. It times out sooner where the disk has
/// no room for another chunk; then `disk_error_` says so.
std::optional<limiter::WaitEnd> WriterCore::wait_for_chunk(limiter::WaitTerms& terms) noexcept {
  if (!in_tail() || adopt_chunk(false)) {
    return std::nullopt;
  }
  limiter::Wait wait(terms, &core_->shards().writers_for_chunk, nullptr);
  const bool only_try = wait.refused();
  std::optional<limiter::WaitEnd> end;
  if (only_try) {
    end = limiter::WaitEnd::Stopped;
  }
  BackOff back_off;
  const auto disk_deadline = base::deadline_after(kDiskPatience);
  while (!end) {
    end = disk_error_ != 0 ? wait.over(disk_deadline) : wait.over();
    if (!end && adopt_chunk(back_off.pause(wait))) {
      return std::nullopt;
    }
  }
  // However short the wait was, it does not end while there is a chunk to be had at all; unless the
  // hook ended it, whose caller may count on that the step was not taken.
  if ((only_try || !wait.refused()) && adopt_chunk(true)) {
    wait.found();
    return std::nullopt;
  }
  if (end != limiter::WaitEnd::TimedOut) {
    disk_error_ = 0;
  }
  return end;
}

/// For open items to be decided in, of an episode that ends. They are committed: neither a stop
/// request nor a hook ends this wait.
bool WriterCore::last_wait_for_chunk() noexcept {
  const std::stop_token never;
  limiter::WaitTerms terms(&life_, kLastWait, never, nullptr);
  return !wait_for_chunk(terms);
}

void WriterCore::refuse_disk() const {
  buffer::refuse_disk(core_->options().storage, disk_error_, "one more chunk",
                      store_.chunk_bytes());
}

}  // namespace reprise::writer
