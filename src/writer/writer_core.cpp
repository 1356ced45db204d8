#include "writer/writer_core.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace reprise::writer {

using storage::ItemHeader;

WriterCore::WriterCore(std::shared_ptr<buffer::BufferCore> core, std::size_t slot,
                       const WriterOptions& options)
    : core_(std::move(core)),
      slot_(slot),
      timeout_(options.timeout),
      stop_(options.stop),
      hook_(options.hook),
      store_(core_->store()),
      life_(core_->life()),
      ahead_(core_->window().ahead()),
      behind_(core_->window().behind()),
      chunk_rows_(store_.chunk_rows()),
      field_mask_(core_->layout().field_mask()),
      observation_mask_(core_->layout().observation_mask()),
      every_step_(core_->window().every_step()),
      needs_priorities_(core_->selectors().need_caller()),
      finite_(core_->schema().requires_finite()),
      has_states_(core_->layout().state_mask() != 0),
      next_shard_(slot % core_->shards().size()),
      tail_(std::make_unique_for_overwrite<std::byte[]>((core_->window().context_rows() + 1) *
                                                        core_->layout().stride())),
      states_(core_->layout(), core_->window()) {
  const buffer::WriterSlots::WriterPosition writer_position = core_->slots().writer_position(slot);
  if (writer_position.next_shard != storage::kNil) {
    restored_chunk_ = writer_position.chunk;
    next_shard_ = writer_position.next_shard;
    next_episode_ = writer_position.next_episode;
  }
  note_writer_position();
  fields = core_->layout().fields().data();
  field_count = core_->layout().fields().size();
  if (!core_->limiter().limits_inserts()) {
    booked_ = std::numeric_limits<std::size_t>::max();
  }
}

void WriterCore::begin_episode() {
  life_.check();
  if (in_episode()) {
    if (in_tail() && open_ != 0 && !last_wait_for_chunk() && disk_error_ != 0) {
      refuse_disk();  // The episode does not end: its open steps are committed, so they must not be
                      // dropped.
    }
    end_truncated();
  }
  if (next_episode_ % buffer::BufferCore::kEpisodeIdBlock == 0) {
    next_episode_ = core_->take_episode_ids();
  }
  episode_ = next_episode_++;
  note_writer_position();
  position_ = 0;
  open_ = 0;
  connected_ = false;
  if (in_tail()) {
    // If there is no chunk, the episode starts in the tail, and its first commit looks for one.
    adopt_chunk(false);
  }
  segment_ = row_;
  taken[kNow] = taken[kNext] = 0;
  point_at_rows();
}

std::size_t WriterCore::completing(End end) const noexcept {
  if (!in_episode()) {
    return 0;
  }
  if (end == End::Continue) {
    return open_ + 1 == ahead_ && begins_item(open_, ahead_, end) ? 1 : 0;
  }
  if (every_step_) {
    return open_ + 1;
  }
  std::size_t items = 0;
  for (std::uint32_t back = 0; back <= open_; ++back) {
    items += begins_item(back, back + 1, end) ? 1U : 0U;
  }
  return items;
}

/// Whether an item begins with the step `back` rows before the current one.
bool WriterCore::begins_item(std::uint32_t back, std::uint32_t length, End end) const noexcept {
  return every_step_ || core_->window().begins_item(position_ - back, length, end != End::Continue);
}

CommitStatus WriterCore::commit(End end, std::span<const float> priorities) {
  if (life_.closed()) {
    return CommitStatus::Closed;
  }
  if (may_wait()) {
    if (const auto status = wait_for_room()) {
      return *status;
    }
  }
  --booked_;

  core_->slots().count_step(slot_);
  decide(end, priorities);
  ++position_;
  if (end != End::Continue) {
    row_ += 2;
    open_ = 0;
    announce(rows_left() < 2);
    rows[kNow] = rows[kNext] = nullptr;
    return CommitStatus::Committed;
  }
  ++row_;
  taken[kNow] = observation_mask_;
  taken[kNext] = 0;
  if (row_ + 1 < chunk_rows_) {
    announce(false);
    point_at_rows();
    return CommitStatus::Committed;
  }
  const std::uint32_t tail_row = save_context();
  announce(true);
  row_ = tail_row;
  segment_ = 0;
  point_at_rows();
  // The step is taken, so waiting for a chunk is left to the next commit.
  adopt_chunk(false);
  return CommitStatus::Committed;
}

/// Decides the steps whose windows the current step completes (I3). It writes their headers and
/// priorities, and `announce` publishes them afterwards.
void WriterCore::decide(End end, std::span<const float> priorities) noexcept {
  const auto priority = [&](std::size_t i) {
    return i < priorities.size() ? priorities[i] : storage::kInitialPriority;
  };
  if (end == End::Continue) {
    if (open_ + 1 < ahead_) {
      ++open_;
      return;
    }
    decide_step(open_, ahead_, end, priority(0));
    published_ = row_ - open_ + 1;
    return;
  }
  std::size_t items = 0;
  for (std::uint32_t back = open_ + 1; back-- > 0;) {
    items += decide_step(back, back + 1, end, priority(items)) ? 1U : 0U;
  }
  priorities_[row_ + 1] = storage::kNotAStep;
  published_ = row_ + 2;
}

/// Decides the step `back` rows before the current one, whose window has `length` steps. True if an
/// item begins with it.
bool WriterCore::decide_step(std::uint32_t back, std::uint32_t length, End end,
                             float priority) noexcept {
  if (!begins_item(back, length, end)) {
    priorities_[row_ - back] = storage::kStepWithoutItem;
    return false;
  }
  const ItemHeader header =
      ItemHeader::make(episode_, position_ - back, length, end == End::Terminated);
  std::byte* const row = store_.row(chunk_, row_ - back);
  std::memcpy(row, &header, sizeof(header));
  if (has_states_) {
    keep_state(row, position_ - back);
  }
  priorities_[row_ - back] = priority;
  if (item_numbers_ != nullptr) {
    item_numbers_[row_ - back] = core_->take_item_number();
  }
  return true;
}

/// Stores the recurrent state of the step at `position`, with which the item of this row begins.
/// The state is complete before the row is published, and its place is not given to another item
/// until the chunk is reclaimed (I1).
void WriterCore::keep_state(std::byte* row, std::uint64_t position) noexcept {
  const storage::StateNumber number = store_.take_state(chunk_);
  std::memcpy(store_.state(number), states_.at(position), store_.state_stride());
  std::memcpy(row + storage::kStateNumberOffset, &number, sizeof(number));
}

/// I6: ends the episode at its last commit. The current row becomes the final row if the window of
/// an item reads it; otherwise its place is used again.
void WriterCore::end_truncated() noexcept {
  // Open items in the tail can be decided only in a chunk. If there is none, their steps are
  // dropped.
  if (in_tail() && open_ != 0 && !last_wait_for_chunk()) {
    // D1: release; partner: BufferCore::stats. A thread that sees the drop sees the commits too.
    core_->counters.dropped_steps.fetch_add(open_, std::memory_order_release);
  }
  if (in_tail()) {
    row_ = 0;
  } else {
    for (std::uint32_t back = open_; back > 0; --back) {
      decide_step(back, back, End::Truncated, storage::kInitialPriority);
    }
    if (open_ != 0 || published_ > segment_) {
      priorities_[row_] = storage::kNotAStep;
      published_ = ++row_;
    } else {
      row_ = segment_;
    }
    announce(rows_left() < 2);
  }
  open_ = 0;
  rows[kNow] = rows[kNext] = nullptr;
}

void WriterCore::point_at_rows() noexcept {
  rows[kNow] = row(row_);
  rows[kNext] = row(row_ + 1);
  if (has_states_) {
    rows[kState] = states_.at(position_);
  }
}

}  // namespace reprise::writer
