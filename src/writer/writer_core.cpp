#include "writer/writer_core.hpp"

#include <reprise/detail/finite.hpp>

#include "base/text.hpp"
#include "buffer/update.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace reprise::writer {
namespace {

/// How long a writer that ends an episode within its tail waits for a chunk before its open items
/// are given up.
constexpr std::chrono::nanoseconds kLastWait = std::chrono::seconds(1);

/// The values of one transition.
const std::byte* row_of(const detail::RawValue& value, const FieldSpec& spec,
                        std::size_t transition) noexcept {
  return static_cast<const std::byte*>(value.data) + transition * spec.bytes;
}

template <class... Parts>
void require_transition(bool ok, const Parts&... parts) {
  base::require(ok, base::Call{"Writer::add_transition"}, parts...);
}

/// Every field once, every observation once more as next, each with its own shape.
void check_values(std::span<const detail::RawValue> values, const buffer::BufferCore& core) {
  std::uint64_t named[2] = {0, 0};
  const auto& fields = core.layout().fields();
  for (const detail::RawValue& value : values) {
    require_transition(
        value.index < fields.size() && fields[value.index].signature == value.signature, "field ",
        value.index, " is not of this buffer's schema");
    const char* const name = core.schema().fields()[value.index].name.c_str();
    require_transition(value.elements == fields[value.index].elements, "field '", name, "' has ",
                       value.elements, " elements; allowed: ", fields[value.index].elements);
    const std::uint64_t bit = std::uint64_t{1} << value.index;
    require_transition(!value.next || (core.layout().observation_mask() & bit) != 0, "field '",
                       name, "' is no observation; allowed as next: observations");
    require_transition((named[value.next ? 1 : 0] & bit) == 0, "field '", name, "' is named twice");
    named[value.next ? 1 : 0] |= bit;
  }
  const std::uint64_t missing_now = core.layout().field_mask() & ~named[0];
  const std::uint64_t missing_next = core.layout().observation_mask() & ~named[1];
  if ((missing_now | missing_next) != 0) {
    const auto first = static_cast<std::size_t>(std::countr_zero(missing_now | missing_next));
    base::refuse(base::Call{"Writer::add_transition"}, "field '",
                 core.schema().fields()[first].name, "' is missing as ",
                 (missing_now >> first & 1U) != 0 ? "now" : "next");
  }
}

}  // namespace

WriterCore::WriterCore(std::shared_ptr<buffer::BufferCore> core, std::size_t slot,
                       const WriterOptions& options)
    : core_(std::move(core)),
      slot_(slot),
      timeout_(options.timeout),
      stop_(options.stop),
      hook_(options.hook),
      needs_priorities_(core_->selectors().need_caller()),
      log_(core_->step_log.get()),
      chunk_(*core_, slot),
      inserts_(*core_),
      states_(core_->layout(), core_->window()) {
  fields = core_->layout().fields().data();
  field_count = core_->layout().fields().size();
}

WriterCore::~WriterCore() {
  if (core_->life().forked()) {
    return;  // The buffer belongs to another process, and its locks may be held for ever.
  }
  if (in_episode()) {
    end_truncated();
  }
  chunk_.leave();
  inserts_.give_back();
  core_->slots().give_back(slot_);
}

void WriterCore::begin_episode() {
  core_->life().check();
  if (in_episode()) {
    if (!can_decide()) {
      chunk_.check_disk();  // The episode stays as it is: its open steps are committed.
    }
    end_truncated();
  }
  episode_ = take_episode_id();
  position_ = 0;
  open_ = 0;
  connected_ = false;
  chunk_.begin();
  taken[kNow] = taken[kNext] = 0;
  point_at_rows();
}

/// Notes the next one too, for the writer that goes on after a load.
std::uint64_t WriterCore::take_episode_id() noexcept {
  buffer::WriterSlots::WriterPosition position = core_->slots().writer_position(slot_);
  if (position.next_episode % buffer::BufferCore::kEpisodeIdBlock == 0) {
    position.next_episode = core_->take_episode_ids();
  }
  const std::uint64_t episode = position.next_episode++;
  core_->slots().note(slot_, position);
  return episode;
}

std::size_t WriterCore::completing(End end) const noexcept {
  if (!in_episode()) {
    return 0;
  }
  if (end == End::Continue) {
    return open_ + 1 == core_->window().ahead() && begins_item(open_, core_->window().ahead(), end)
               ? 1
               : 0;
  }
  if (core_->window().every_step()) {
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
  return core_->window().every_step() ||
         core_->window().begins_item(position_ - back, length, end != End::Continue);
}

CommitStatus WriterCore::commit(End end, std::span<const float> priorities) {
  if (core_->closed()) {
    return CommitStatus::Closed;
  }
  if (chunk_.in_tail() || inserts_.none()) {
    if (const auto status = wait_for_room()) {
      return *status;
    }
  }
  if (log_ != nullptr) {
    log_step(end, priorities);
  }
  inserts_.use_one();

  core_->slots().count_step(slot_);
  decide(end, priorities);
  ++position_;
  if (end != End::Continue) {
    open_ = 0;
    chunk_.end(chunk_.row() + 1);
    rows[kNow] = rows[kNext] = nullptr;
    return CommitStatus::Committed;
  }
  taken[kNow] = core_->layout().observation_mask();
  taken[kNext] = 0;
  if (!chunk_.step()) {
    const auto behind = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(core_->window().behind(), position_ - open_));
    chunk_.move_on(behind + open_, storage::Sequel::mark(episode_, position_));
  }
  point_at_rows();
  return CommitStatus::Committed;
}

void WriterCore::log_step(End end, std::span<const float> priorities) const {
  const bool kept = core_->layout().state_mask() != 0 && states_.kept(position_);
  log_->commit({.slot = slot_,
                .episode = episode_,
                .position = position_,
                .now = rows[kNow],
                .next = rows[kNext],
                .state = kept ? rows[kState] : nullptr,
                .end = end,
                .priorities = priorities,
                .items = completing(end)});
}

/// Nothing once there is a chunk in hand and an insert booked, else why the step is not taken.
std::optional<CommitStatus> WriterCore::wait_for_room() {
  chunk_.announce_all();  // A sampler may have to draw what is decided before there is room.
  limiter::WaitTerms terms(&core_->life(), timeout_, stop_, hook_);
  std::optional<limiter::WaitEnd> end = chunk_.wait(terms);
  if (end) {
    chunk_.check_disk();
  } else {
    point_at_rows();
    end = inserts_.wait(terms);
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
  if (end == End::Continue) {
    if (open_ + 1 < core_->window().ahead()) {
      ++open_;
      return;
    }
    decide_step(open_, core_->window().ahead(), end, priority(0));
    chunk_.decided_before(chunk_.row() - open_ + 1);
    return;
  }
  std::size_t items = 0;
  for (std::uint32_t back = open_ + 1; back-- > 0;) {
    items += decide_step(back, back + 1, end, priority(items)) ? 1U : 0U;
  }
}

/// The step `back` rows before the current one; its window has `length` steps. True if an item
/// begins with it.
bool WriterCore::decide_step(std::uint32_t back, std::uint32_t length, End end,
                             float priority) noexcept {
  const std::uint32_t row = chunk_.row() - back;
  if (!begins_item(back, length, end)) {
    chunk_.pass_over(row);
    return false;
  }
  const std::uint64_t position = position_ - back;
  if (core_->layout().state_mask() != 0) {
    chunk_.keep_state(row, states_.at(position));
  }
  chunk_.decide(row, storage::ItemHeader::make(episode_, position, length, end == End::Terminated),
                priority);
  return true;
}

/// I6: ends the episode at its last commit. The current row becomes the final one if an item's
/// window reads it, else its place is free again.
void WriterCore::end_truncated() noexcept {
  if (log_ != nullptr) {
    log_->cut(slot_);
  }
  if (!can_decide()) {
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
  open_ = 0;
  rows[kNow] = rows[kNext] = nullptr;
}

/// Whether there is a chunk for the open items of an episode that ends, if it has any. They are
/// committed: neither a stop request nor a hook ends the wait for it.
bool WriterCore::can_decide() noexcept {
  if (open_ == 0) {
    return true;
  }
  const std::stop_token never;
  limiter::WaitTerms terms(&core_->life(), kLastWait, never, nullptr);
  return !chunk_.wait(terms);
}

void WriterCore::point_at_rows() noexcept {
  rows[kNow] = chunk_.at(chunk_.row());
  rows[kNext] = chunk_.at(chunk_.row() + 1);
  if (core_->layout().state_mask() != 0) {
    rows[kState] = states_.at(position_);
  }
}

CommitStatus WriterCore::add_transitions(std::span<const End> ends,
                                         std::span<const detail::RawValue> values,
                                         std::size_t& done) {
  check_values(values, *core_);
  check_transitions(ends, values, done);
  core_->life().check();  // Before rows are touched, which a forked child may not have.
  const std::span<const FieldSpec> specs = core_->schema().fields();
  const auto place = [&](const detail::RawValue& value) {
    const int now = specs[value.index].traits().per_item ? kState : kNow;
    return rows[value.next ? kNext : now] + fields[value.index].offset;
  };
  const OpenChunk::OneRing one_ring(chunk_);
  for (; done < ends.size(); ++done) {
    const End end = ends[done];
    bool continues = connected_ && in_episode();
    for (const detail::RawValue& value : values) {
      const FieldSpec& spec = specs[value.index];
      continues =
          continues && (value.next || !spec.traits().has_next ||
                        std::memcmp(place(value), row_of(value, spec, done), spec.bytes) == 0);
    }
    if (needs_priorities_) {  // Refused before the episode under way is cut.
      check_priorities(continues ? completing(end) : check_episode(1, end, {}), {});
    }
    if (!continues) {
      begin_episode();
    }
    for (const detail::RawValue& value : values) {
      const FieldSpec& spec = specs[value.index];
      if (!continues || value.next || !spec.traits().has_next) {
        std::memcpy(place(value), row_of(value, spec, done), spec.bytes);
      }
    }
    taken[kNow] |= core_->layout().field_mask();
    taken[kNext] |= core_->layout().observation_mask();
    if (const CommitStatus status = commit(end, {}); status != CommitStatus::Committed) {
      return status;
    }
    connected_ = true;
  }
  return CommitStatus::Committed;
}

void WriterCore::check_end(End end) {
  base::require(end <= End::Truncated, base::Call{"Writer::commit"}, "end is ",
                static_cast<unsigned>(end),
                "; allowed: Continue (0), Terminated (1), Truncated (2)");
}

void WriterCore::check_commit(End end, std::span<const float> priorities) const {
  check_end(end);
  core_->life().check();
  check_step();
  if (core_->schema().requires_finite()) {
    check_finite();
  }
  if (!priorities.empty() || needs_priorities_) {
    check_priorities(completing(end), priorities);
  }
}

std::size_t WriterCore::check_episode(std::size_t steps, End end,
                                      std::span<const float> priorities) const {
  check_end(end);
  const std::size_t items = items_of_episode(core_->options().window, steps, end);
  check_priorities(items, priorities);
  return items;
}

/// An episode under way, every field written, the discount within its range.
void WriterCore::check_step() const {
  const std::uint64_t missing_now = core_->layout().field_mask() & ~taken[kNow];
  const std::uint64_t missing_next = core_->layout().observation_mask() & ~taken[kNext];
  if (!in_episode() || (missing_now | missing_next) != 0) {
    check_unwritten(missing_now, missing_next);
  }
  if (const auto field = core_->layout().discount_field()) {
    check_discount(rows[kNow] + fields[*field].offset);
  }
}

void WriterCore::check_discount(const void* given) const {
  float discount = 0.0F;
  std::memcpy(&discount, given, sizeof(discount));
  if (!(discount >= 0.0F && discount <= 1.0F)) {
    base::refuse(base::Call{"Writer::commit"}, "field '",
                 core_->schema().fields()[*core_->layout().discount_field()].name, "' is ",
                 discount, "; allowed: 0 to 1");
  }
}

/// Throws outside an episode and for fields that are unwritten, but for recurrent states with which
/// no item can begin.
void WriterCore::check_unwritten(std::uint64_t missing_now, std::uint64_t missing_next) const {
  if (!in_episode()) {
    base::refuse<std::logic_error>(base::Call{"Writer::commit"},
                                   "outside an episode: call begin_episode first");
  }
  if (!states_.kept(position_)) {
    missing_now &= ~core_->layout().state_mask();
  }
  if ((missing_now | missing_next) == 0) {
    return;
  }
  const bool now = missing_now != 0;
  const auto field = static_cast<std::size_t>(std::countr_zero(now ? missing_now : missing_next));
  base::refuse<std::logic_error>(
      base::Call{"Writer::commit"}, "field '", core_->schema().fields()[field].name, "' of the ",
      now ? "current" : "next", " step is unwritten: write it through ", now ? "now" : "next");
}

/// The current step's rewards and next observations. Its own observations were the next ones of the
/// step before, but for the first step of an episode.
void WriterCore::check_finite() const {
  const std::span<const FieldSpec> specs = core_->schema().fields();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const bool observation = specs[i].traits().has_next;
    if (specs[i].traits().spreads && (!observation || position_ == 0)) {
      check_finite(false, i, rows[kNow] + fields[i].offset);
    }
    if (observation) {
      check_finite(true, i, rows[kNext] + fields[i].offset);
    }
  }
}

void WriterCore::check_finite(bool next, std::size_t field, const void* values,
                              std::optional<std::size_t> transition) const {
  const FieldSpec& spec = core_->schema().fields()[field];
  const detail::NotFinite found =
      detail::find_not_finite(spec.dtype, {static_cast<const std::byte*>(values), spec.bytes});
  if (found.name == nullptr) {
    return;
  }
  base::refuse(base::Call{"Writer::commit"}, "field '", spec.name, "' of the ",
               next ? "next" : "current", " step is ", found.name, " at element ", found.element,
               ", in ",
               transition ? base::text("transition ", *transition)
                          : base::text("step ", position_, " of episode ", episode_),
               "; allowed: finite (Schema::require_finite)");
}

/// What the transitions from number `first` on hold, before the first of them is taken.
void WriterCore::check_transitions(std::span<const End> ends,
                                   std::span<const detail::RawValue> values,
                                   std::size_t first) const {
  require_transition(first <= ends.size(), "taken is ", first, "; allowed: 0 to ", ends.size());
  std::ranges::for_each(ends, check_end);
  for (const detail::RawValue& value : values) {
    const FieldSpec& spec = core_->schema().fields()[value.index];
    const bool discount = core_->layout().discount_field() == value.index;
    const bool finite = core_->schema().requires_finite() && spec.traits().spreads;
    for (std::size_t i = first; (discount || finite) && i < ends.size(); ++i) {
      if (finite) {
        check_finite(value.next, value.index, row_of(value, spec, i), i);
      }
      if (discount) {
        check_discount(row_of(value, spec, i));
      }
    }
  }
}

/// One priority for each item decided, or none where the selectors have a rule for that.
void WriterCore::check_priorities(std::size_t items, std::span<const float> priorities) const {
  if (priorities.empty()) {
    base::require(!needs_priorities_ || items == 0, base::Call{"Writer::commit"},
                  "0 priorities; with initial = ", base::Enumerator{"FromCaller"},
                  " one for each of the ", items, " items decided");
    return;
  }
  base::require(priorities.size() == items, base::Call{"Writer::commit"}, priorities.size(),
                " priorities; this call decides ", items, " items");
  for (const auto& rule : core_->selectors().rules()) {
    buffer::check_priorities("Writer::commit", priorities, *rule);
  }
}

}  // namespace reprise::writer
