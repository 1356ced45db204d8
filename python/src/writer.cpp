#include "writer.hpp"

#include "guest.hpp"

#include <cstring>

namespace reprise::python {
namespace {

constexpr const char* kDoc = R"(Appends the steps of one environment; made by ReplayBuffer.writer.

    writer.begin_episode(state=s)
    while not over:
        ...
        writer.append(action=a, reward=r, next_state=s,
                      end=reprise.ends(terminated, truncated))

Values: arrays, lists or numbers of the field's shape, without broadcasting. What numpy's
casting 'same_kind' allows is converted (float64 to float32), integers to any integer type whose
range holds them; a C-contiguous array of the right dtype is copied once, straight into the
buffer. Non-contiguous, read-only and byte-swapped arrays are fine.

A call that raises one of these errors has written nothing: ValueError for a missing or unknown
field, a wrong shape, a number out of range; TypeError for a dtype that does not convert; both name
the field, what is expected and what was given. RuntimeError in a forked child, and while another
thread's call is under way: one thread at a time may use a writer, any number of writers work at
once. Closed after `close` of the writer or the buffer.

An append may wait, for a free chunk or the rate limiter, up to the timeout that the writer was
made with; it waits without the GIL, and KeyboardInterrupt ends the wait. TimeoutError, the exception
of a signal handler, and OSError if the disk of a mapped file is full mean that the step was not
taken: call again with the same arguments. Copies of more than 512 bytes are made without the GIL.

Closing or losing a writer ends its episode as truncated at the last append. `with` closes it.)";

constexpr const char* kBegin =
    R"(Starts an episode with its first observations: every observation of the schema by its name.

Within an episode, the call first ends that episode as truncated at its last append, for which it
may wait up to a second.)";

constexpr const char* kAppend =
    R"(Appends one step: every column by its name, the observation that follows as `next_` and its name,
a recurrent state by its name where an item may begin: at positions of the episode that are
multiples of the period; with sequences of end='overlap' or 'continue' at every position.

end: an End or its number, or reprise.ends(terminated, truncated); a bool is a TypeError. At an end
  the `next_` observations are the final ones.
priorities: float32 [n], one raw priority for each item whose window this step completes, oldest
  first; `completing(end)` says how many. None: the selectors' initial priority.
Raises RuntimeError outside an episode, TimeoutError as the class says.)";

constexpr const char* kEpisode =
    R"(Appends one whole episode of T steps as arrays: observations are [T + 1, *shape], first to final;
every other field is [T, *shape]. One pass without the GIL, at the speed of C++.

end: how its last step ends, End.TERMINATED unless given; with End.CONTINUE the episode goes on
  with `append`.
priorities: None, or float32 [n], one for each item of the episode (of Transitions T), oldest first.
An episode under way is ended first, as truncated. Everything is checked before the first step is
appended. If the call is interrupted or finds no room after k steps, the episode is under way with k
steps: the same call, made right after, appends the others.)";

constexpr const char* kTransition =
    R"(Appends one loose transition: every field by its name, and observations as `next_` and name too.

The transition continues the episode under way if such a call appended a step of the episode and the
observations equal the last `next_` ones byte for byte; else it ends that episode as truncated and
begins a new one. Costs comparing and copying the observations; a transition that begins an episode
takes two rows instead of one.

It has no priorities: with a selector of initial='from_caller', a transition that completes an item
is refused (ValueError).)";

constexpr const char* kTransitions =
    R"(Appends T loose transitions in the order of time: every field as an array [T, *shape], and
observations as `next_` and name too. end: [T] integers, as in VectorWriter.append. Each transition
is appended as by `append_transition`, in one pass without the GIL.

All values are checked before the first transition is appended; whether a selector needs priorities
is checked at each. If the call is interrupted or finds no room after k transitions, the same call,
made right after, appends the others.)";

}  // namespace

WriterGroup::WriterGroup(Origin& origin, std::optional<std::size_t> environments,
                         AutoReset autoreset, std::chrono::nanoseconds append_timeout)
    : restore_count(origin.restore_count),
      hook([&origin] { return origin.stats(); }),
      timeout(append_timeout) {
  const WriterOptions options{.timeout = timeout, .hook = &hook};
  without_gil([&] {
    if (environments) {
      vector.emplace(origin.vector_writer(*environments, options, autoreset));
    } else {
      single.emplace(origin.writer(options));
    }
  });
  closed.assign(environments.value_or(1), 0);
}

void WriterGroup::close(std::size_t e) {
  if (closed[e] == 0) {
    closed[e] = 1;
    const GilRelease released;  // Closing ends the episode, which may wait for a chunk.
    const Writer closing = std::move((*this)[e]);
  }
}

WriterObject::WriterObject(std::shared_ptr<Origin> origin, std::shared_ptr<WriterGroup> group,
                           std::size_t environment)
    : origin_(std::move(origin)),
      group_(std::move(group)),
      environment_(environment),
      values_(origin_->table),
      loose_(origin_->table, LooseRows::Writers::One, LooseRows::Resets::NoRows) {}

WriterObject::~WriterObject() {
  // The group's last object closes the writers, without the GIL, because they may wait for a chunk.
  const GilRelease released(group_.use_count() == 1);
  group_.reset();
}

Writer& WriterObject::open(const char* call) const {
  if (group_->closed[environment_] != 0) {
    throw Closed(std::string(call) + ": the writer is closed");
  }
  return (*group_)[environment_];
}

std::int64_t WriterObject::episode_id() const {
  return static_cast<std::int64_t>(open("Writer.episode_id").episode_id());
}

std::uint64_t WriterObject::episode_steps() const {
  return open("Writer.episode_steps").episode_steps();
}

void WriterObject::begin_episode(const Fields& fields) {
  Writer& writer = open(fields.call());
  origin_->check_process();
  origin_->check_open(fields.call(), group_->restore_count);
  const ValuesReset reset_at_end(values_);
  const FieldTable& table = origin_->table;
  read_fields(fields, table, {.now = table.observation_mask()}, values_);
  // Ending an episode under way may wait for a chunk.
  const GilRelease released(writer.in_episode() || table.copied_bytes() > kCopyWithGil);
  writer.begin_episode();
  write_now(writer, table, values_);
}

void WriterObject::append(End end, const std::optional<Priorities>& given, const Fields& fields) {
  Writer& writer = open(fields.call());
  origin_->check_process();
  if (!group_->in_episode(environment_)) {
    origin_->check_open(fields.call(), group_->restore_count);
    throw std::logic_error(std::string(fields.call()) +
                           " outside an episode: call begin_episode first");
  }
  const ValuesReset reset_at_end(values_);
  const FieldTable& table = origin_->table;
  read_fields(fields, table,
              {.now = table.column_mask(),
               .optional = table.state_mask() | table.version_mask(),
               .next = table.observation_mask()},
              values_);
  check_states(values_, table, origin_->window, fields.call(), writer.episode_steps());
  const std::span<const float> priorities =
      priorities_or_none(given, given ? writer.completing(end) : 0, fields.call());
  const auto retry = [&] { return writer.commit(end, priorities); };
  const auto attempt = [&] {
    write_now(writer, table, values_);
    write_next(writer, table, values_);
    return retry();
  };
  episode_ = {};
  commit(*origin_, *group_, first_try(table.copied_bytes()), fields.call(), attempt, retry,
         &step_not_taken);
}

/// Whether the row that `row_` points at is a simulator's reset: it comes right after the row that
/// ended the writer's last episode, and has that episode's final observations. (A loop that leaves
/// resets out gives the first observations of the next episode there.)
bool LooseRows::is_reset(const Writer& writer) const {
  const auto last = finals_.find(&writer);
  if (last == finals_.end() || writer.in_episode() || last->second.episode != writer.episode_id()) {
    return false;
  }
  const std::byte* final = last->second.observations.data();
  for (const AnyValue& value : row_) {
    if (!value.next && traits(value.field.role()).has_next) {
      if (std::memcmp(value.bytes.data(), final, value.bytes.size()) != 0) {
        return false;
      }
      final += value.bytes.size();
    }
  }
  return true;
}

void LooseRows::record_end(const Writer& writer) {
  Final& last = finals_[&writer];
  last.episode = writer.episode_id();
  last.observations.clear();
  for (const AnyValue& value : row_) {
    if (value.next) {
      last.observations.insert(last.observations.end(), value.bytes.begin(), value.bytes.end());
    }
  }
}

/// Reads the arguments of a call. `row_` has no bytes yet.
void LooseRows::read(const Call& call) {
  const StepValues& values = call.values;
  read_fields(call.fields, table_,
              {.now = table_.observation_mask() | table_.column_mask() | table_.state_mask(),
               .optional = table_.version_mask(),
               .next = table_.observation_mask(),
               .rows = call.rows,
               .unchecked = has_resets_},
              call.values);
  row_.clear();
  for (const FieldInfo& field : table_.fields()) {
    for (const bool next : {false, true}) {
      if (((next ? values.given_next : values.given_now) & field.bit()) != 0) {
        row_.push_back({field.field, next, {}});
      }
    }
  }
  if (call.rows) {
    ends_from(call.ends, call.fields.call(), *call.rows, ends_);
  } else {
    ends_.assign(1, call.end);
  }
}

/// Gives `row_` the bytes of these rows.
void LooseRows::point_at(const Call& call, std::size_t first, std::size_t count) {
  for (AnyValue& value : row_) {
    const std::size_t i = value.field.index();
    const std::size_t bytes = table_.fields()[i].spec.bytes;
    const Value& rows = (value.next ? call.values.next : call.values.now)[i];
    value.bytes = {rows.data() + first * bytes, count * bytes};
  }
}

std::size_t LooseRows::hash(const Call& call) {
  point_at(call, 0, ends_.size());
  return hash_of(row_, ends_);
}

/// Checks the values of the rows that are left, but for resets: they are not stored, so their
/// values do not matter.
void LooseRows::check_stored_rows(const Call& call, const WriterOf& writer_of) {
  for (std::size_t row = appended_; row < ends_.size(); ++row) {
    point_at(call, row, 1);
    if (!is_reset(writer_of(row))) {
      check_rows(call.fields.call(), table_, call.values, row, 1);
    }
  }
}

/// Appends the rows that are left, all at once if they are of one writer.
CommitStatus LooseRows::add_rows(const Call& call, const WriterOf& writer_of) {
  const std::size_t at_once = one_writer_ ? ends_.size() : 1;
  while (appended_ < ends_.size()) {
    const std::size_t first = one_writer_ ? 0 : appended_;
    point_at(call, first, at_once);
    Writer& writer = writer_of(appended_);
    if (has_resets_ && is_reset(writer)) {
      finals_[&writer].episode = kNone;  // Only one reset follows the end of an episode.
      ++appended_;
      continue;
    }
    std::size_t added = 0;  // What a call for a single row has appended: 0 or 1.
    const CommitStatus status = writer.add_transitions(std::span(ends_).subspan(first, at_once),
                                                       row_, one_writer_ ? appended_ : added);
    appended_ += added;
    if (status != CommitStatus::Committed) {
      return status;
    }
    if (has_resets_ && !writer.in_episode()) {
      record_end(writer);
    }
  }
  return CommitStatus::Committed;
}

void LooseRows::append(const Call& call, Origin& origin, WriterGroup& group,
                       const WriterOf& writer_of) {
  read(call);
  const auto state = [&] {
    const Writer& writer = writer_of(std::min(appended_, ends_.size() - 1));
    return std::pair(writer.episode_id(), writer.episode_steps());
  };
  const auto goes_on = [&] { return hash(call) == unfinished_hash_ && state() == resume_state_; };
  if (appended_ != 0 && !goes_on()) {
    appended_ = 0;  // This is another call than the unfinished one.
  }
  if (has_resets_) {
    check_stored_rows(call, writer_of);
  }
  const auto add = [&] { return add_rows(call, writer_of); };
  const auto progress = [&] {
    return call.rows ? std::to_string(appended_) + " of " + std::to_string(*call.rows) +
                           " transitions were taken: call again with the same arguments, and it "
                           "goes on behind them"
                     : step_not_taken();
  };
  try {
    // The call may begin an episode, which may wait for a chunk, so it never holds the GIL.
    commit(origin, group, FirstTry::WithoutGil, call.fields.call(), add, add, progress);
  } catch (const std::logic_error&) {
    appended_ = 0;  // The call was refused, and would be refused again.
    throw;
  } catch (...) {
    resume_state_ = state();
    unfinished_hash_ = hash(call);
    throw;
  }
  appended_ = 0;
}

void WriterObject::append_loose(const LooseRows::Call& call) {
  Writer& writer = open(call.fields.call());
  origin_->check_process();
  const ValuesReset reset_at_end(values_);
  episode_ = {};
  loose_.append(call, *origin_, *group_, [&](std::size_t /*row*/) -> Writer& { return writer; });
}

void WriterObject::append_transition(End end, const Fields& fields) {
  append_loose({fields, values_, /*rows=*/std::nullopt, end, /*ends=*/{}});
}

void WriterObject::append_transitions(ArrayLike end, const Fields& fields) {
  const std::size_t rows = count_rows(fields, origin_->table).value_or(1);
  append_loose({fields, values_, rows, {}, end});
}

/// Reads the arrays of an episode. Returns its number of steps; observations have one row more.
std::size_t WriterObject::read_episode(const Fields& fields) {
  const FieldTable& table = origin_->table;
  const std::optional<std::size_t> steps = count_steps(fields, table);
  check_final(fields, table);
  read_fields(fields, table,
              {.now = table.observation_mask() | table.column_mask() | table.state_mask(),
               .optional = table.version_mask(),
               .rows = steps,
               .observation_rows = steps ? std::optional(*steps + 1) : std::nullopt},
              values_);
  return steps.value_or(0);
}

void WriterObject::append_episode(End end, const std::optional<Priorities>& given,
                                  const Fields& fields) {
  Writer& writer = open(fields.call());
  origin_->check_process();
  const ValuesReset reset_at_end(values_);
  const std::size_t steps = read_episode(fields);
  const std::size_t items =
      writer.check_episode(steps, end, given ? given->values : std::span<const float>());
  const std::span<const float> priorities = priorities_or_none(given, items, fields.call());
  origin_->check_open(fields.call(), group_->restore_count);
  std::vector<AnyValue> rows;
  for (const FieldInfo& field : origin_->table.fields()) {
    const std::size_t count = steps + (field.traits().has_next ? 1 : 0);
    if ((values_.given_now & field.bit()) != 0) {
      rows.push_back({field.field,
                      /*next=*/false,
                      {values_.now[field.field.index()].data(), count * field.spec.bytes}});
    }
  }
  if (!continues_episode(steps, rows)) {
    episode_ = {.steps = steps};
  }
  const auto add = [&] { return writer.add_episode(steps, end, rows, episode_.taken, priorities); };
  try {
    commit(*origin_, *group_, FirstTry::WithoutGil, fields.call(), add, add,
           [&] { return episode_progress(); });
  } catch (...) {
    episode_.id = writer.episode_id();
    episode_.values = hash_of(rows, /*ends=*/{});
    throw;
  }
  episode_ = {};
}

/// Whether these arguments of append_episode are those of the call that appended only some steps,
/// and the writer still is where that call left it.
bool WriterObject::continues_episode(std::size_t steps, std::span<const AnyValue> values) const {
  const Writer& writer = (*group_)[environment_];
  return episode_.taken != 0 && episode_.steps == steps && writer.in_episode() &&
         writer.episode_id() == episode_.id && writer.episode_steps() == episode_.taken &&
         hash_of(values, /*ends=*/{}) == episode_.values;
}

/// How many steps an unfinished append_episode has appended, and how to go on.
std::string WriterObject::episode_progress() const {
  if (episode_.taken == 0) {
    return step_not_taken();
  }
  return std::to_string(episode_.taken) + " of " + std::to_string(episode_.steps) +
         " steps were taken: call append_episode again with the same arguments, and it goes on "
         "behind them";
}

namespace {

/// Makes a Writer of a buffer, guest or packer, in a group of its own.
template <class Self>
nb::object make_writer(Self& self, std::chrono::nanoseconds timeout) {
  return make_object<WriterObject>(
      self.shared,
      std::make_shared<WriterGroup>(*self.shared, /*environments=*/std::nullopt,
                                    AutoReset::Disabled, timeout),
      /*environment=*/std::size_t{0});
}

}  // namespace

template <class Self>
void add_writer(Type<Self>& type) {
  type.template method<&make_writer<Self>>(
      "writer", "Writer",
      R"(A Writer for one environment. timeout: seconds that an append may wait for room, for a chunk or the
rate limiter; None waits for ever, 0 tries once. RuntimeError beyond max_writers.)",
      keyword("timeout", kNoTimeout));
}
template void add_writer(Type<BufferObject>& type);
template void add_writer(Type<GuestObject>& type);
template void add_writer(Type<PackerObject>& type);

void bind_writer(nb::module_& module) {
  using Self = WriterObject;
  constexpr auto kFields = arg("fields");
  Type<Self>("Writer", kDoc)
      .method<&Self::begin_episode>("begin_episode", kBegin, arg("observations"))
      .method<&Self::append>("append", kAppend, keyword("end", End::Continue),
                             keyword("priorities", std::nullopt), kFields)
      .method<&Self::append_episode>("append_episode", kEpisode, keyword("end", End::Terminated),
                                     keyword("priorities", std::nullopt), kFields)
      .method<&Self::append_transition>("append_transition", kTransition,
                                        keyword("end", End::Continue), kFields)
      .method<&Self::append_transitions>("append_transitions", kTransitions, keyword("end"),
                                         kFields)
      .method<&Self::completing>(
          "completing",
          "How many items an append with this end would complete now: its number of priorities.\n"
          "Of Transitions CONTINUE completes 1 item from the episode's step n_step on, before it "
          "0;\n"
          "an end completes all items still open.",
          arg("end"))
      .method<&Self::set_version>(
          "set_version",
          "The version of the policy that makes the steps appended from now on "
          "(`Schema.version`).\n"
          "It should rise, but need not. ValueError for a version below 0, and for a schema "
          "without\n"
          "a version.",
          arg("version"))
      .method<&Self::close>(
          "close",
          "Ends the episode as truncated at the last append and gives the writer back. Further\n"
          "appends raise Closed. May wait up to a second.")
      .closes<&Self::close>()
      .property<&Self::in_episode>("in_episode",
                                   "True between begin_episode and the append that ends the "
                                   "episode.")
      .property<&Self::episode_id>(
          "episode_id",
          "Id of the current or last episode, unique in the buffer; as in Batch.episode_ids.")
      .property<&Self::episode_steps>("episode_steps",
                                      "Steps appended to the current or last episode.")
      .add(module);
}

}  // namespace reprise::python
