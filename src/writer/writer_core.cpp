#include "writer/writer_core.hpp"

#include "base/normal.hpp"

#include <algorithm>
#include <utility>

namespace reprise::writer {
namespace {

/// How long a writer that ends an episode in its tail waits for a chunk before it drops the open
/// steps.
constexpr std::chrono::nanoseconds kLastWait = std::chrono::seconds(1);

}  // namespace

WriterCore::WriterCore(std::shared_ptr<buffer::BufferCore> core, std::size_t slot,
                       const WriterOptions& options, bool polls)
    : StepWriter({core->format(), core->selectors(), core->life()}, options),
      core_(std::move(core)),
      slot_(slot),
      polls_(polls),
      chunk_(*core_, slot),
      inserts_(*core_),
      states_(core_->layout(), core_->window()) {}

WriterCore::~WriterCore() {
  if (core_->life().forked()) {
    return;  // The buffer belongs to another process, and its locks may be held for ever.
  }
  if (in_episode()) {
    end_truncated(wait_to_decide());
  }
  if (core_->window().continues()) {
    end_stream();
  }
  chunk_.leave();
  inserts_.give_back();
  core_->slots().give_back(slot_);
}

void WriterCore::begin_episode() {
  core_->life().check_not_forked();
  if (in_episode()) {
    const bool can_decide = wait_to_decide();
    if (!can_decide) {
      chunk_.check_disk();  // If this throws, the episode stays open with its committed steps.
    }
    end_truncated(can_decide);
  }
  start_episode(take_episode_id());
  chunk_.begin();
  point_at_rows();
}

/// Returns the id of a new episode, and stores the next id in the writer's position, where a writer
/// of a loaded buffer goes on.
std::uint64_t WriterCore::take_episode_id() noexcept {
  buffer::WriterSlots::WriterPosition position = core_->slots().writer_position(slot_);
  if (position.next_episode % buffer::BufferCore::kEpisodeIdBlock == 0) {
    position.next_episode = core_->take_episode_ids();
  }
  const std::uint64_t episode = position.next_episode++;
  core_->slots().set_position(slot_, position);
  return episode;
}

CommitStatus WriterCore::commit(End end, std::span<const float> priorities) {
  if (core_->closed()) {
    return CommitStatus::Closed;
  }
  // A step needs a chunk and a booked insert.
  if (chunk_.in_tail() || inserts_.none()) {
    if (const auto status = wait_for_room()) {
      return *status;
    }
  }
  inserts_.use_one();

  core_->slots().count_step(slot_);
  if (core_->window().continues()) {
    note_step(end);
  }
  decide(end, priorities);
  ++position_;
  if (end != End::Continue) {
    if (core_->window().continues()) {
      end_in_stream(chunk_.row() + 1);
    } else {
      chunk_.end(chunk_.row() + 1);
    }
    leave_episode();
    return CommitStatus::Committed;
  }
  go_on();
  if (!chunk_.step()) {  // The chunk is full.
    chunk_.move_on(open_ + finals_, storage::Sequel::mark(episode_, position_));
  }
  point_at_rows();
  return CommitStatus::Committed;
}

CommitStatus WriterCore::add_transitions(std::span<const End> ends,
                                         std::span<const detail::RawValue> values,
                                         std::size_t& done) {
  const auto deferred_ring = this->deferred_ring();
  return StepWriter::add_transitions(ends, values, done);
}

/// Waits for a chunk and a booked insert. Returns nothing once both are there, or why the step is
/// not committed.
std::optional<CommitStatus> WriterCore::wait_for_room() {
  chunk_.announce_all();  // There may be room only after a sampler has drawn these items.
  limiter::WaitTerms terms(&core_->life(), timeout_, stop_, hook_);
  std::optional<limiter::WaitEnd> end = chunk_.wait(terms);
  if (end) {
    chunk_.check_disk();
  } else {
    point_at_rows();
    if (!polls_) {
      end = inserts_.wait(terms);
    } else if (!inserts_.poll()) {
      end = limiter::WaitEnd::Stopped;
    }
  }
  constexpr CommitStatus kAnswers[] = {CommitStatus::TimedOut, CommitStatus::Stopped,
                                       CommitStatus::Closed};
  return end ? std::optional(kAnswers[static_cast<std::size_t>(*end)]) : std::nullopt;
}

/// Decides the steps whose windows the current step completes (I3): writes their headers and
/// priorities, before `OpenChunk::step` or `end` publishes them.
void WriterCore::decide(End end, std::span<const float> priorities) noexcept {
  const auto priority = [&](std::size_t i) {
    // An append of a shipment passes this mark where the shipment has no priority.
    const bool given = i < priorities.size() && priorities[i] != storage::kInitialPriority;
    return given ? base::normal_or_0(priorities[i]) : storage::kInitialPriority;
  };
  if (end == End::Continue || core_->window().continues()) {
    if (open_ + 1 < core_->window().ahead()) {
      ++open_;
      return;
    }
    decide_step(open_, core_->window().ahead(), end, priority(0));
    const std::uint32_t first_open = chunk_.row() - open_ - finals_ + 1;
    chunk_.set_decided_end(first_open);
    if (finals_ != 0 && is_final(first_open)) {
      --finals_;  // The first open step is in the row behind the final one.
    }
    return;
  }
  std::size_t items = 0;
  for (std::uint32_t back = open_ + 1; back-- > 0;) {
    if (decide_step(back, back + 1, end, priority(items))) {
      ++items;
    }
  }
}

/// Decides the step `back` steps before the current one; its window has `length` steps. Returns
/// whether an item begins with it.
bool WriterCore::decide_step(std::uint32_t back, std::uint32_t length, End end,
                             float priority) noexcept {
  const std::uint32_t row = chunk_.row() - back - finals_;
  if (!begins_item(back, length, end)) {
    chunk_.decide_no_item(row);
    return false;
  }
  if (core_->layout().state_mask() != 0) {
    chunk_.store_state(row, states_.at(step_number() - back));
  }
  chunk_.decide(row, header(row, back, length, end), priority);
  return true;
}

/// The header for the step in `row`, for `decide_step`. In a stream the length in the header counts
/// rows, which include the final rows between the window's steps.
storage::ItemHeader WriterCore::header(std::uint32_t row, std::uint32_t back, std::uint32_t length,
                                       End end) const noexcept {
  if (!core_->window().continues()) {
    return storage::ItemHeader::make(episode_, position_ - back, length, end == End::Terminated);
  }
  storage::ItemHeader noted;
  std::memcpy(&noted, chunk_.at(row), sizeof(noted));
  return storage::ItemHeader::make(noted.episode, noted.position(), length + finals_);
}

/// Writes the episode, position and end of the current step of a stream into its row, before an
/// item whose window has the step is decided.
void WriterCore::note_step(End end) noexcept {
  const auto noted = storage::ItemHeader::make(episode_, position_, /*length=*/0);
  std::memcpy(rows[kNow], &noted, sizeof(noted));
  core_->layout().stream_rows().put(rows[kNow], static_cast<storage::StreamRow>(end));
}

/// Makes a row the final one of an episode; the stream goes on in the row behind it.
void WriterCore::end_in_stream(std::uint32_t final_row) noexcept {
  core_->layout().stream_rows().put(chunk_.at(final_row), storage::StreamRow::Final);
  finals_ += open_ != 0 ? 1U : 0U;
  chunk_.pass_final(final_row, open_ + finals_, storage::Sequel::mark(episode_, position_));
}

/// Ends the stream. No item begins with its open steps, so without a chunk they are dropped at
/// once.
void WriterCore::end_stream() noexcept {
  if (chunk_.in_tail()) {
    // D1: release; partner: stats. Whoever sees the drop has seen the commits.
    core_->counters.dropped_steps.fetch_add(open_, std::memory_order_release);
    chunk_.drop();
    return;
  }
  for (std::uint32_t row = chunk_.row() - open_ - finals_; row < chunk_.row(); ++row) {
    if (!is_final(row)) {
      chunk_.decide_no_item(row);
    }
  }
  chunk_.end_stream();
}

/// Ends the episode at its last commit (I6). The current row becomes the final one if the window of
/// an item reads it, or in a stream may read it; otherwise the row is free. `can_decide`: what
/// `wait_to_decide` returned.
void WriterCore::end_truncated(bool can_decide) noexcept {
  if (core_->window().continues()) {
    if (position_ != 0) {
      end_in_stream(chunk_.row());
    }
    leave_episode();
    return;
  }
  if (!can_decide) {
    // D1: release; partner: stats. Whoever sees the drop has seen the commits.
    core_->counters.dropped_steps.fetch_add(open_, std::memory_order_release);
    chunk_.drop();
  } else if (open_ != 0 || chunk_.has_decided()) {
    for (std::uint32_t back = open_; back > 0; --back) {
      decide_step(back, back, End::Truncated, storage::kInitialPriority);
    }
    chunk_.end(chunk_.row());
  } else {
    chunk_.drop();
  }
  leave_episode();
}

/// Waits for a chunk in which the open steps of an ending episode can be decided, if it has any.
/// Returns false if no chunk can be had. A stream keeps its open steps, so it waits for nothing.
/// Because the open steps are committed, no stop request ends the wait; the hook does, but only for
/// a writer that polls.
bool WriterCore::wait_to_decide() noexcept {
  if (open_ == 0 || core_->window().continues()) {
    return true;
  }
  const std::stop_token never;
  limiter::WaitTerms terms(&core_->life(), kLastWait, never, polls_ ? hook_ : nullptr);
  return !chunk_.wait(terms);
}

void WriterCore::point_at_rows() noexcept {
  rows[kNow] = chunk_.at(chunk_.row());
  rows[kNext] = chunk_.at(chunk_.row() + 1);
  if (core_->layout().state_mask() != 0) {
    rows[kState] = states_.at(step_number());
  }
}

}  // namespace reprise::writer
