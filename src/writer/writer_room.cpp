#include "base/check.hpp"
#include "writer/writer_core.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace reprise::writer {
namespace {

using storage::kNil;

/// How long a writer waits for a used chunk once the disk has no room for a fresh one.
constexpr std::chrono::nanoseconds kDiskPatience = std::chrono::milliseconds(100);
/// How long a writer that ends an episode in its tail waits for a chunk before it drops its open
/// items.
constexpr std::chrono::nanoseconds kLastWait = std::chrono::seconds(1);

/// Rising pauses between a writer's attempts to get a chunk. The writer is not registered with an
/// event, so nobody wakes it and it has to try again by itself.
class BackOff {
 public:
  /// Yields or sleeps. True once yielding alone has not helped.
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
    return;  // Locks of the parent's threads may be held for ever here.
  }
  if (in_episode()) {
    end_truncated();
  }
  if (!in_tail()) {
    // A chunk with too few rows for the next writer is closed instead of left open, so that at most
    // max_writers chunks are open.
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

/// Gives up the chunk of a writer position in which no episode was begun. It is left open for the
/// next writer, which may bring context rows, or closed if it has too few rows for that.
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

/// Publishes the decided rows and rings for them. With `closing` the same ring lets go of the chunk
/// for good, and the writer must not touch it afterwards. The next stops of the data path are
/// `storage::publish` and `Shard::ring`.
void WriterCore::announce(bool closing) noexcept {
  if (published_ == announced_ && !closing) {
    return;
  }
  storage::publish(words_->bell, published_);
  announced_ = published_;
  if (shard_->ring(chunk_, closing)) {
    // E1: a push is the progress that a sleeping sampler waits for.
    core_->items_event.wake_registered();
  }
  if (closing) {
    core_->counters.closed_chunks.fetch_add(1, std::memory_order_relaxed);
    chunk_ = kNil;
    row_ = 0;
    note_writer_position();
  }
}

/// Notes the writer position, from which a writer continues after a load.
void WriterCore::note_writer_position() noexcept {
  core_->slots().note(slot_, {in_tail() ? restored_chunk_ : chunk_,
                              static_cast<std::uint32_t>(next_shard_), next_episode_});
}

/// Copies the rows that open items and the current step still need to the beginning of the tail.
/// Returns the index of the current row there. Rows before the open items are context.
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
  // Every row below the cursor is decided: a writer leaves a chunk open only after it has ended its
  // episode.
  const std::uint32_t base = store_.chunk(chunk).cursor;
  published_ = announced_ = base;
  if (in_episode()) {
    REPRISE_ASSERT(row_ + 2 <= chunk_rows_ - base);
    // The next row is copied too, because the caller may have written the next observation already.
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

/// Takes a chunk from the shards in turn, so that one writer fills the whole capacity and all
/// shards hold about as much.
///
/// Free chunks come first, then chunks freed by ingesting and evicting, then fresh chunks, as many
/// as the capacity usually takes. In a full buffer a chunk that the writer closed in a shard makes
/// room there when the writer comes back to that shard. Other shards are tried if the next in turn
/// has none, and fresh chunks beyond the usual number only if `urgent`.
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

/// Waits for a chunk. Returns nothing once the writer has one, or why it has none. If the disk has
/// no room for a fresh chunk, the wait times out sooner and `disk_error_` is set.
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
  // Even a short wait takes any chunk that there is before it ends. It does not if the hook ended
  // the wait, because the caller may then rely on the step not being taken.
  if ((only_try || !wait.refused()) && adopt_chunk(true)) {
    wait.found();
    return std::nullopt;
  }
  if (end != limiter::WaitEnd::TimedOut) {
    disk_error_ = 0;
  }
  return end;
}

/// Waits for a chunk in which the open items of an ending episode can be decided. Their steps are
/// committed, so neither a stop request nor a hook ends this wait.
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
