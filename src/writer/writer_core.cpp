#include "writer/writer_core.hpp"

#include <algorithm>
#include <utility>

namespace reprise::writer {
namespace {

/// How long a writer that ends an episode within its tail waits for a chunk before its open items
/// are given up.
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
    end_truncated(can_decide());
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
    const bool decides = can_decide();
    if (!decides) {
      chunk_.check_disk();  // The episode stays as it is: its open steps are committed.
    }
    end_truncated(decides);
  }
  start_episode(take_episode_id());
  chunk_.begin();
  point_at_rows();
}

/// Returns the id of a new episode. Notes the next id too, for the writer that goes on after a
/// load.
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

/// Returns nothing once there is a chunk and a booked insert, or why the step is not taken.
std::optional<CommitStatus> WriterCore::wait_for_room() {
  chunk_.announce_all();  // A sampler may have to draw what is decided before there is room.
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

/// Decides the steps whose windows the current one completes (I3). Their headers and priorities are
/// written here, before `step` or `end` publishes them.
void WriterCore::decide(End end, std::span<const float> priorities) noexcept {
  const auto priority = [&](std::size_t i) {
    return i < priorities.size() ? priorities[i] : storage::kInitialPriority;
  };
  if (end == End::Continue || core_->window().continues()) {
    if (open_ + 1 < core_->window().ahead()) {
      ++open_;
      return;
    }
    decide_step(open_, core_->window().ahead(), end, priority(0));
    const std::uint32_t after = chunk_.row() - open_ - finals_ + 1;
    chunk_.set_decided_end(after);
    if (finals_ != 0 && is_final(after)) {
      --finals_;
    }
    return;
  }
  std::size_t items = 0;
  for (std::uint32_t back = open_ + 1; back-- > 0;) {
    items += decide_step(back, back + 1, end, priority(items)) ? 1U : 0U;
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
    chunk_.store_state(row, states_.at(number() - back));
  }
  chunk_.decide(row, header(row, back, length, end), priority);
  return true;
}

/// The header of the step in `row`, for `decide_step`. In a stream its length counts the rows that
/// the window reads.
storage::ItemHeader WriterCore::header(std::uint32_t row, std::uint32_t back, std::uint32_t length,
                                       End end) const noexcept {
  if (!core_->window().continues()) {
    return storage::ItemHeader::make(episode_, position_ - back, length, end == End::Terminated);
  }
  storage::ItemHeader noted;
  std::memcpy(&noted, chunk_.at(row), sizeof(noted));
  return storage::ItemHeader::make(noted.episode, noted.position(), length + finals_, false);
}

/// Writes the episode, position and end of the current step into its row, before an item of the
/// stream that has the step is decided.
void WriterCore::note_step(End end) noexcept {
  const auto noted = storage::ItemHeader::make(episode_, position_, 0, false);
  std::memcpy(rows[kNow], &noted, sizeof(noted));
  core_->layout().stream_rows().put(rows[kNow], static_cast<storage::StreamRow>(end));
}

/// Makes this row the final one of an episode; its stream goes on in the row after it.
void WriterCore::end_in_stream(std::uint32_t final_row) noexcept {
  core_->layout().stream_rows().put(chunk_.at(final_row), storage::StreamRow::Final);
  finals_ += open_ != 0 ? 1U : 0U;
  chunk_.pass_final(final_row, open_ + finals_, storage::Sequel::mark(episode_, position_));
}

/// Ends the stream: no item begins with its open steps, so they are worth no wait for a chunk.
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

/// Ends the episode at its last commit (I6). The current row becomes the final one if an item's
/// window reads it, or in a stream may read it; otherwise the row is free. `decides`: what
/// `can_decide` answered.
void WriterCore::end_truncated(bool decides) noexcept {
  if (core_->window().continues()) {
    if (position_ != 0) {
      end_in_stream(chunk_.row());
    }
    leave_episode();
    return;
  }
  if (!decides) {
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

/// Waits for a chunk in which the open steps of an ending episode can be decided, if it has any; a
/// stream goes on with them, without a chunk before its next commit. Returns false if there is
/// none. Because these steps are committed, no stop request ends the
/// wait, and the hook does only for a thread that must not wait.
bool WriterCore::can_decide() noexcept {
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
    rows[kState] = states_.at(number());
  }
}

}  // namespace reprise::writer
