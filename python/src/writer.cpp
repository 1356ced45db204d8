#include "writer.hpp"

#include "released.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace reprise::python {
namespace {

/// 0 for an object without length, which has no step either.
py::ssize_t length_of(PyObject* given) {
  const py::ssize_t length = PyObject_Size(given);
  if (length < 0) {
    const py::error_already_set error;
    if (!error.matches(PyExc_TypeError)) {
      throw error;
    }
    return 0;
  }
  return length;
}

}  // namespace

WriterObject::WriterObject(std::shared_ptr<SharedBuffer> buffer, std::chrono::nanoseconds timeout,
                           std::shared_ptr<WriterMarks> marks)
    : buffer_(std::move(buffer)),
      marks_(std::move(marks)),
      writer_(std::make_unique<Writer>(buffer_->buffer.writer({.hook = &marks_->hook}))),
      timeout_(timeout),
      values_(buffer_->table),
      first_(buffer_->table) {}

WriterObject::~WriterObject() {
  if (writer_ && writer_->in_episode()) {
    // It may wait for a chunk to decide open items in.
    const Released released;
    writer_.reset();
  }
}

void WriterObject::close() {
  const InUse in_use(marks_->in_use, "Writer");
  const SharedBuffer::Call under_way(*buffer_, "Writer.close");
  check_vector_step("Writer.close");
  give_back();
}

void WriterObject::give_back() {
  held_ = Held::Nothing;
  values_.reset();
  const Released released;
  writer_.reset();
}

Writer& WriterObject::open(const char* call) {
  if (!writer_) {
    throw Closed(std::string(call) + ": the writer is closed");
  }
  return *writer_;
}

/// A step of the vector writer that is held is in this writer's row.
void WriterObject::check_vector_step(const char* call) const {
  if (marks_->vector_step_held) {
    throw std::logic_error(
        std::string(call) +
        ": the vector writer of this writer holds a step: call its retry() until "
        "it is taken");
  }
}

Writer& WriterObject::open_for_append(const char* call) {
  Writer& writer = open(call);
  buffer_->check_process();
  check_vector_step(call);
  if (holds_step()) {
    throw std::logic_error(std::string(call) +
                           ": the last append found no room and holds its step: call retry() until "
                           "it is taken, or begin_episode, which gives the step up");
  }
  return writer;
}

void WriterObject::begin_episode(const Arguments& arguments) {
  constexpr const char* kCall = "Writer.begin_episode";
  const InUse in_use(marks_->in_use, "Writer");
  const SharedBuffer::Call under_way(*buffer_, kCall);
  Writer& writer = open(kCall);
  buffer_->check_process();
  check_vector_step(kCall);
  if (buffer_->buffer.closed()) {
    throw Closed(std::string(kCall) + ": the buffer is closed");
  }
  // Read beside what is held, which a call that is refused leaves as it was.
  const TakenValues taken(first_);
  const FieldTable& table = buffer_->table;
  read_fields(
      arguments, table,
      {.call = kCall, .now = table.observations(), .takes_end = false, .takes_priorities = false},
      first_);
  first_.check_unchanged(table);
  {
    // Within an episode it may wait for a chunk to decide open items in.
    const MaybeReleased released(writer.in_episode() || table.copied_bytes() > kCopyWithGil);
    writer.begin_episode();
    write_now(writer, table, first_, table.observations(), 0);
  }
  held_ = Held::Nothing;
  values_.reset();
}

/// Tries once, without waiting; if there is no room, keeps what is needed and waits.
template <class Attempt>
void WriterObject::finish(Held kind, bool large, TakenValues& taken, const char* call,
                          const Attempt& attempt) {
  CommitStatus status = CommitStatus::Committed;
  try {
    const MaybeReleased released(large);
    status = attempt();
  } catch (const std::system_error&) {
    hold_rest(kind, taken);
    throw;
  } catch (const std::bad_alloc&) {
    hold_rest(kind, taken);
    throw;
  }
  if (status == CommitStatus::Closed) {
    throw Closed(std::string(call) + ": the buffer is closed; the step was not taken");
  }
  if (status == CommitStatus::Committed) {
    return;
  }
  hold(kind, taken);
  wait_for_room(call);
}

/// On a full disk, or without memory: an episode of which steps are in goes on by `retry`, else
/// they would be in twice.
void WriterObject::hold_rest(Held kind, TakenValues& taken) {
  if (kind == Held::Episode && commit_.done != 0) {
    hold(kind, taken);
  }
}

/// Keeps what the call took for `retry`.
void WriterObject::hold(Held kind, TakenValues& taken) {
  if (kind == Held::Episode) {
    values_.keep(buffer_->table, commit_.steps, commit_.steps + 1);
  } else {
    values_.keep(buffer_->table, 1, 1);
  }
  taken.keep();
  held_ = kind;
}

void WriterObject::take_priorities(PyObject* given) {
  py::object owner;
  const auto priorities = optional_priorities_from(given, owner);
  commit_.has_priorities = priorities.has_value();
  commit_.priorities.clear();
  if (priorities) {
    commit_.priorities.assign(priorities->begin(), priorities->end());
  }
}

void WriterObject::check_priorities(std::size_t items, const char* call) const {
  std::optional<std::span<const float>> given;
  if (commit_.has_priorities) {
    given = commit_.priorities;
  }
  buffer_->check_priorities(given, items, call);
}

void WriterObject::append(const Arguments& arguments) {
  constexpr const char* kCall = "Writer.append";
  const InUse in_use(marks_->in_use, "Writer");
  const SharedBuffer::Call under_way(*buffer_, kCall);
  Writer& writer = open_for_append(kCall);
  if (!writer.in_episode()) {
    throw std::logic_error(std::string(kCall) + " outside an episode: call begin_episode first");
  }
  TakenValues taken(values_);
  const FieldTable& table = buffer_->table;
  const AppendKeywords keywords = read_fields(arguments, table,
                                              {.call = kCall,
                                               .now = table.columns(),
                                               .optional = table.recurrent_states(),
                                               .next = table.observations()},
                                              values_);
  if (const std::uint64_t missing = missing_states(values_, table); missing != 0) {
    check_states(missing, table, kCall, writer.episode_steps(), buffer_->states_every());
  }
  commit_.end = keywords.end == nullptr ? End::Continue : end_from(keywords.end);
  take_priorities(keywords.priorities);
  values_.check_unchanged(table);
  if (commit_.has_priorities || buffer_->needs_priorities()) {
    check_priorities(writer.completing(commit_.end), kCall);
  }
  finish(Held::Step, table.copied_bytes() > kCopyWithGil, taken, kCall, [&] {
    write_now(writer, table, values_, ~std::uint64_t{0}, 0);
    write_next(writer, table, values_, 0);
    return writer.commit(commit_.end, commit_.priorities);
  });
}

void WriterObject::append_transition(const Arguments& arguments) {
  constexpr const char* kCall = "Writer.append_transition";
  const InUse in_use(marks_->in_use, "Writer");
  const SharedBuffer::Call under_way(*buffer_, kCall);
  open_for_append(kCall);
  TakenValues taken(values_);
  const FieldTable& table = buffer_->table;
  const AppendKeywords keywords =
      read_fields(arguments, table,
                  {.call = kCall,
                   .now = table.observations() | table.columns() | table.recurrent_states(),
                   .next = table.observations(),
                   .takes_priorities = false},
                  values_);
  commit_.end = keywords.end == nullptr ? End::Continue : end_from(keywords.end);
  values_.check_unchanged(table);
  // It may begin an episode within one, which may wait for a chunk.
  finish(Held::Transition, true, taken, kCall, [&] { return commit_transition(); });
}

CommitStatus WriterObject::commit_transition() {
  std::vector<AnyValue> values;
  for (const FieldInfo& field : buffer_->table.fields()) {
    const std::size_t i = field.field.index();
    values.push_back({field.field, false, {values_.now[i].data(), field.spec.bytes}});
    if (field.traits().has_next) {
      values.push_back({field.field, true, {values_.next[i].data(), field.spec.bytes}});
    }
  }
  return writer_->add_transition(commit_.end, values);
}

/// Steps of the episode that a call gives: the first dimension of its arrays.
std::size_t WriterObject::read_episode(const Arguments& arguments, AppendKeywords& keywords) {
  constexpr const char* kCall = "Writer.append_episode";
  const FieldTable& table = buffer_->table;
  std::optional<std::size_t> steps;
  for (py::ssize_t i = 0; i < arguments.named() && !steps; ++i) {
    const Named named = table.find(arguments.name(i));
    if (named.field == nullptr) {
      continue;
    }
    const py::ssize_t length = length_of(arguments.value(i));
    const py::ssize_t more = named.field->traits().has_next ? 1 : 0;
    if (length <= more) {
      throw std::invalid_argument(std::string(kCall) + ": field '" + named.field->spec.name +
                                  "': expected at least one step" +
                                  (more != 0 ? " and the final observation" : "") +
                                  "; given length " + std::to_string(length));
    }
    steps = static_cast<std::size_t>(length - more);
  }
  keywords = read_fields(arguments, table,
                         {.call = kCall,
                          .now = table.observations() | table.columns() | table.recurrent_states(),
                          .rows = steps,
                          .observation_rows = steps ? std::optional(*steps + 1) : std::nullopt},
                         values_);
  return steps.value_or(0);
}

void WriterObject::append_episode(const Arguments& arguments) {
  constexpr const char* kCall = "Writer.append_episode";
  const InUse in_use(marks_->in_use, "Writer");
  const SharedBuffer::Call under_way(*buffer_, kCall);
  Writer& writer = open_for_append(kCall);
  TakenValues taken(values_);
  AppendKeywords keywords;
  commit_.steps = read_episode(arguments, keywords);
  commit_.done = commit_.used = 0;
  commit_.end = keywords.end == nullptr ? End::Terminated : end_from(keywords.end);
  take_priorities(keywords.priorities);
  check_priorities(items_of_episode(buffer_->buffer.options().window, commit_.steps, commit_.end),
                   kCall);
  values_.check_unchanged(buffer_->table);
  if (buffer_->buffer.closed()) {
    throw Closed(std::string(kCall) + ": the buffer is closed; no step was taken");
  }
  finish(Held::Episode, true, taken, kCall, [&] {
    writer.begin_episode();
    write_now(writer, buffer_->table, values_, buffer_->table.observations(), 0);
    return commit_episode(nullptr);
  });
}

/// Commits the steps that are left, until one finds no room. With a deadline they wait for it.
CommitStatus WriterObject::commit_episode(const Deadline* deadline) {
  const FieldTable& table = buffer_->table;
  for (; commit_.done < commit_.steps; ++commit_.done) {
    const std::size_t row = commit_.done;
    write_now(*writer_, table, values_, ~table.observations(), row);
    for (const FieldInfo& field : table.fields()) {
      if (field.traits().has_next) {
        const auto to = writer_->next(field.field);
        const std::byte* const from = values_.now[field.field.index()].data();
        std::copy_n(from + (row + 1) * to.size(), to.size(), to.data());
      }
    }
    const End end = row + 1 == commit_.steps ? commit_.end : End::Continue;
    std::span<const float> own;
    if (!commit_.priorities.empty()) {
      own = std::span<const float>(commit_.priorities)
                .subspan(commit_.used, writer_->completing(end));
    }
    if (deadline != nullptr) {
      writer_->set_timeout(deadline->left());
    }
    const CommitStatus status = writer_->commit(end, own);
    if (status != CommitStatus::Committed) {
      return status;
    }
    commit_.used += own.size();
  }
  return CommitStatus::Committed;
}

CommitStatus WriterObject::commit_again(const Deadline& deadline) {
  writer_->set_timeout(deadline.left());
  switch (held_) {
    case Held::Transition:
      return commit_transition();
    case Held::Episode:
      return commit_episode(&deadline);
    default:
      return writer_->commit(commit_.end, commit_.priorities);
  }
}

void WriterObject::wait_for_room(const char* call) {
  const Deadline deadline(timeout_);
  const CommitStatus status = marks_->hook.wait([&] { return commit_again(deadline); });
  const bool closed = status == CommitStatus::Closed;
  if (closed || status == CommitStatus::Committed) {
    held_ = Held::Nothing;
    values_.reset();
    if (closed) {
      throw Closed(std::string(call) + ": the buffer is closed; the step was not taken");
    }
    return;
  }
  buffer_->check_process();
  time_out(call, deadline.waited());
}

void WriterObject::time_out(const char* call, std::chrono::nanoseconds waited) {
  throw TimedOut(
      std::string(call) + ": no room for the step within " +
      std::to_string(std::chrono::duration<double>(waited).count()) +
      " s; it is held, retry() tries again. Rate limiter: " + buffer_->buffer.stats().limiter);
}

void WriterObject::retry() {
  constexpr const char* kCall = "Writer.retry";
  const InUse in_use(marks_->in_use, "Writer");
  const SharedBuffer::Call under_way(*buffer_, kCall);
  static_cast<void>(open(kCall));
  buffer_->check_process();
  if (!holds_step()) {
    throw std::logic_error(std::string(kCall) + ": no step is held");
  }
  wait_for_room(kCall);
}

}  // namespace reprise::python
