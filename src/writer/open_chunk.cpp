#include "writer/open_chunk.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <thread>

namespace reprise::writer {
namespace {

using storage::kNil;
using WriterPosition = buffer::WriterSlots::WriterPosition;

/// How long to wait for a freed chunk once the disk has no room for a new one.
constexpr std::chrono::nanoseconds kDiskPatience = std::chrono::milliseconds(100);

/// Rising pauses between a writer's attempts to get a chunk. No event tells of a freed chunk, so
/// nobody wakes the writer.
class BackOff {
 public:
  /// Pauses. The need is urgent once it sleeps, because yielding did not help.
  Need pause(const limiter::Wait& wait) noexcept {
    if (tries_ < kYields) {
      ++tries_;
      std::this_thread::yield();
      return Need::Usual;
    }
    pause_ = std::min(pause_ * 2, kLongest);
    wait.pause(pause_);
    return Need::Urgent;
  }

 private:
  static constexpr int kYields = 2;
  static constexpr std::chrono::nanoseconds kLongest = std::chrono::microseconds(1000);
  int tries_ = 0;
  std::chrono::nanoseconds pause_ = std::chrono::microseconds(5);
};

/// Finds a chunk, or returns kNil. A writer passes the next shard as `home` each time, so that all
/// shards get about as many steps.
///
/// A chunk that another writer left open comes first, of any shard. Otherwise shard `home` is
/// tried, and then all shards, for a chunk that was used and freed, then for one that ingesting and
/// evicting frees, then for one that was never used. Unless the need is urgent, a shard gives out
/// chunks that were never used only until it has used a few more than the average number of chunks
/// with steps.
std::uint32_t find_chunk(buffer::BufferCore& core, std::size_t home, Need need,
                         int& disk_error) noexcept {
  const std::size_t shards = core.shards().size();
  // How many chunks a shard may have used beside those with steps: one for each of its writers, and
  // two more, because some are pinned and some are closed but not ingested.
  const std::size_t without_steps = core.slots().alive() / shards + 2;
  const auto open = [&](std::size_t s) { return core.shards()[s].chunks().take_open(); };
  const auto recycled = [&](std::size_t s) { return core.shards()[s].chunks().take_recycled(); };
  const auto helped = [&](std::size_t s) {
    core.shards().help_ingest(s);
    return core.shards()[s].chunks().take_recycled();
  };
  const auto fresh = [&](std::size_t s) {
    shard::ChunkPool& chunks = core.shards()[s].chunks();
    const bool allowed =
        need == Need::Urgent ||
        chunks.touched() <= core.shards().chunks_with_steps() / shards + without_steps;
    return allowed ? chunks.take_fresh(disk_error) : kNil;
  };
  std::uint32_t chunk = kNil;
  const auto try_shards = [&](std::size_t count, const auto& take) {
    for (std::size_t i = 0; i < count && chunk == kNil; ++i) {
      chunk = take((home + i) % shards);
    }
  };
  try_shards(shards, open);
  // The home shard ingests what was published there before it gets more rows. Otherwise other
  // shards would evict for it, and their steps may be younger.
  if (chunk == kNil && core.shards()[home].maybe_rung()) {
    core.shards().help_ingest(home);
  }
  for (const std::size_t count : {std::size_t{1}, shards}) {
    try_shards(count, recycled);
    try_shards(count, helped);
    try_shards(count, fresh);
  }
  return chunk;
}

}  // namespace

OpenChunk::OpenChunk(buffer::BufferCore& core, std::size_t slot)
    : core_(core),
      slot_(slot),
      tail_(core.layout().frame_bytes() != 0
                ? nullptr
                : std::make_unique_for_overwrite<std::byte[]>((core.window().context_rows() + 1) *
                                                              core.layout().stride())),
      rows_(tail_.get()) {
  if (core_.layout().frame_bytes() != 0) {
    packer_.emplace(core_.format(), core_.store());
  }
  if (core_.slots().writer_position(slot).next_shard == kNil) {
    core_.slots().set_position(
        slot, {.next_shard = static_cast<std::uint32_t>(slot % core_.shards().size())});
  }
}

void OpenChunk::leave() noexcept {
  if (in_tail()) {
    // After a load, the slot may still name the chunk that was open at the save: a writer that has
    // begun no episode since the load has not entered that chunk yet.
    const std::uint32_t left = core_.slots().writer_position(slot_).chunk;
    if (left != kNil) {
      enter(left);
    }
  }
  if (!in_tail()) {
    // An open chunk that is too small for the next writer is closed instead, so at most max_writers
    // chunks are ever open.
    if (rows_left() < core_.window().min_chunk_rows()) {
      close();
    } else {
      core_.store().chunk(chunk_).cursor = row_;
      shard_->chunks().leave_open(chunk_);
    }
  }
  // The next writer in this slot begins with the next shard, because otherwise shards would fill
  // unevenly where writers live for only a few steps.
  core_.slots().set_position(slot_,
                             {.next_shard = core_.slots().writer_position(slot_).next_shard});
}

void OpenChunk::begin() noexcept {
  if (core_.window().continues()) {
    if (in_tail()) {
      take_with_tail();
    }
    return;
  }
  if (in_tail()) {
    take();
  }
  segment_ = row_;
}

void OpenChunk::drop() noexcept {
  row_ = segment_;  // No row has been packed, because no step of the episode is decided here.
}

void OpenChunk::end(std::uint32_t final_row) noexcept {
  pack_through(final_row);
  priorities_[final_row] = storage::kNotAStep;
  row_ = published_ = final_row + 1;
  if (rows_left() < 2) {
    close();
  } else {
    announce();
  }
}

void OpenChunk::pass_final(std::uint32_t final_row, std::uint32_t open,
                           std::uint32_t mark) noexcept {
  row_ = final_row + 1;
  if (in_tail()) {
    return;
  }
  pack_through(final_row);
  priorities_[final_row] = storage::kNotAStep;
  if (rows_left() < 2) {
    move_on(open, mark);
  } else {
    announce();
  }
}

void OpenChunk::end_stream() noexcept {
  if (row_ != segment_) {
    pack_through(row_ - 1);
  }
  published_ = row_;
  announce();
}

void OpenChunk::store_state(std::uint32_t row, const std::byte* state) noexcept {
  const storage::StateNumber number = core_.store().take_state(chunk_);
  std::memcpy(core_.store().state(number), state, core_.store().state_stride());
  std::memcpy(stored(row) + storage::kStateNumberOffset, &number, sizeof(number));
}

void OpenChunk::move_on(std::uint32_t open, std::uint32_t mark) noexcept {
  REPRISE_ASSERT(row_ - open >= segment_);
  const std::uint32_t first =
      row_ - open - std::min(core_.window().behind(), row_ - open - segment_);
  if (!core_.layout().mutable_fields().empty()) {
    copy_to_tail(first);
  } else if (!packer_) {
    std::memcpy(tail_.get(), at(first), (end_of_rows() - first) * core_.store().row_stride());
  }
  if (packer_) {
    packer_->renumber(first);
  }
  previous_chunk_ = chunk_;
  mark_ = mark;
  core_.store().chunk(previous_chunk_).sequel.expect(mark_);
  const std::uint32_t context = row_ - first;
  close();
  row_ = context;
  // This step is committed already; if there is no chunk, the next commit waits for one.
  take_with_tail();
}

/// Copies rows from `first` to the current one into the tail; with compressed fields only mutable
/// values, because the packer has the rest. Rows before the current one may be published, so their
/// mutable values are read as samplers read them.
void OpenChunk::copy_to_tail(std::uint32_t first) noexcept {
  const storage::RowLayout& from = core_.chunk_layout();
  const storage::RowLayout& kept = core_.layout();
  for (std::uint32_t row = first; row < row_; ++row) {
    std::byte* const to = packer_ ? packer_->at(row) : tail_.get() + (row - first) * from.stride();
    if (!packer_) {
      std::memcpy(to, stored(row), from.mutable_begin());
    }
    storage::read_consistent(*core_.store().version(stored(row)), [&] {
      for (std::size_t i = 0; i < from.mutable_fields().size(); ++i) {
        const storage::MutableField& field = from.mutable_fields()[i];
        storage::get_value(stored(row) + field.offset, to + kept.mutable_fields()[i].offset,
                           field.bytes);
      }
    });
  }
  if (!packer_) {
    std::memcpy(tail_.get() + (row_ - first) * from.stride(), stored(row_),
                (end_of_rows() - row_) * from.stride());
  }
}

/// Waits for a chunk. The wait times out sooner if the disk has no room for another chunk; then
/// `disk_error_` is the errno value.
std::optional<limiter::WaitEnd> OpenChunk::wait(limiter::WaitTerms& terms) noexcept {
  if (!in_tail() || take_with_tail()) {
    return std::nullopt;
  }
  limiter::Wait wait(terms, &core_.shards().writers_for_chunk, nullptr);
  const bool only_try = wait.refused();
  BackOff back_off;
  const auto disk_deadline = base::deadline_after(kDiskPatience);
  for (;;) {
    std::optional<limiter::WaitEnd> end = limiter::WaitEnd::Stopped;
    if (!only_try) {
      end = disk_error_ != 0 ? wait.over(disk_deadline) : wait.over();
    }
    if (!end) {
      if (take_with_tail(back_off.pause(wait))) {
        return std::nullopt;
      }
      continue;
    }
    // However short the wait was, it must not fail while a chunk can be had, so the writer tries
    // once more. After the hook has ended the wait it does not try: the hook's owner may rely on it
    // that the step was not committed.
    if ((only_try || !wait.refused()) && take_with_tail(Need::Urgent)) {
      wait.clear_end();
      return std::nullopt;
    }
    if (end == limiter::WaitEnd::TimedOut && disk_error_ == 0) {
      // The short deadline for a full disk may have ended the wait before the caller's timeout. If
      // the last attempt failed for another reason, only the caller's timeout counts.
      end = wait.over();
    }
    if (end) {
      lacks_disk_ = disk_error_ != 0;
      disk_error_ = end == limiter::WaitEnd::TimedOut ? disk_error_ : 0;
      return end;
    }
  }
}

void OpenChunk::check_disk() const {
  if (disk_error_ != 0) {
    buffer::refuse_disk(core_.options().storage, disk_error_, "one more chunk",
                        core_.store().disk_bytes_of_chunk());
  }
}

/// Announces the decided rows, if a row was decided since the last ring and no `DeferredRing`
/// lives.
void OpenChunk::announce() noexcept {
  if (!held_ && published_ != announced_) {
    publish_and_ring(shard::Ring::News);
  }
}

/// Gives up the chunk, with a last ring in any case; the writer goes on in its tail.
void OpenChunk::close() noexcept {
  publish_and_ring(shard::Ring::Closing);  // Afterwards the writer must not touch the chunk.
  core_.counters.closed_chunks.fetch_add(1, std::memory_order_relaxed);
  chunk_ = kNil;
  rows_ = tail_.get();
  row_ = segment_ = published_ = announced_ = 0;
  WriterPosition position = core_.slots().writer_position(slot_);
  position.chunk = kNil;
  core_.slots().set_position(slot_, position);
}

/// Publishes the decided rows and rings the shard's doorbell, so that the next thread that locks
/// the shard ingests them.
void OpenChunk::publish_and_ring(shard::Ring what) noexcept {
  storage::publish(core_.store().chunk(chunk_).bell, published_);
  announced_ = published_;
  if (shard_->ring(chunk_, what)) {
    // The ring put the chunk on the doorbell list, for which a sleeping sampler waits (E1).
    core_.items_event.wake_registered();
  }
}

/// Takes a chunk if one is free or can be freed at once.
bool OpenChunk::take(Need need) noexcept {
  WriterPosition position = core_.slots().writer_position(slot_);
  if (position.chunk == kNil) {
    disk_error_ = 0;
    position.chunk = find_chunk(core_, position.next_shard, need, disk_error_);
    if (position.chunk == kNil) {
      return false;
    }
    position.next_shard = static_cast<std::uint32_t>(
        (core_.shards().index_of_chunk(position.chunk) + 1) % core_.shards().size());
  }
  enter(position.chunk);
  core_.slots().set_position(slot_, position);
  return true;
}

/// Makes a chunk the writer's. All rows before the chunk's cursor count as published, because
/// chunks change hands only between episodes, when every step in them is decided.
void OpenChunk::enter(std::uint32_t chunk) noexcept {
  chunk_ = chunk;
  shard_ = &core_.shards().of_chunk(chunk);
  rows_ = core_.store().row(chunk, 0);
  priorities_ = core_.store().priorities(chunk);
  item_numbers_ = core_.store().item_numbers(chunk, 0);
  segment_ = published_ = announced_ = core_.store().chunk(chunk).cursor;
  row_ += segment_;
  if (packer_) {
    packer_->renumber(0 - segment_);
    packer_->enter(chunk, segment_);
  }
}

/// Takes a chunk in the middle of an episode, and copies the tail's rows to its next free rows.
bool OpenChunk::take_with_tail(Need need) noexcept {
  if (!take(need)) {
    return false;
  }
  REPRISE_ASSERT(rows_left() >= 2);
  if (!packer_) {
    // The row after the current one is copied too, because the next observation of the step under
    // way may have been written there.
    std::memcpy(at(segment_), tail_.get(), (row_ - segment_ + 2) * core_.store().row_stride());
  }
  std::fill_n(priorities_ + segment_, row_ - segment_, storage::kNotAStep);
  if (previous_chunk_ != kNil) {
    core_.store().chunk(previous_chunk_).sequel.resolve(mark_, core_.store().slot({chunk_, row_}));
  }
  return true;
}

}  // namespace reprise::writer
