#include "writer.hpp"

#include "released.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace reprise::python {
namespace {

/// The length of an object; 0 if it has none, because then it has no steps either.
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
      values_(buffer_->table) {}

WriterObject::~WriterObject() {
  if (writer_ && writer_->in_episode()) {
    // The destructor may wait for a chunk in which to decide open items.
    const Released released;
    writer_.reset();
  }
}

void WriterObject::close() {
  const InUse in_use(marks_->in_use, "Writer");
  const SharedBuffer::Call under_way(*buffer_, "Writer.close");
  give_back();
}

void WriterObject::give_back() {
  const Released released;
  writer_.reset();
}

Writer& WriterObject::open(const char* call) {
  if (!writer_) {
    throw Closed(std::string(call) + ": the writer is closed");
  }
  return *writer_;
}

Writer& WriterObject::open_for_append(const char* call) {
  Writer& writer = open(call);
  buffer_->check_process();
  return writer;
}

void WriterObject::begin_episode(const Arguments& arguments) {
  constexpr const char* kCall = "Writer.begin_episode";
  const InUse in_use(marks_->in_use, "Writer");
  const SharedBuffer::Call under_way(*buffer_, kCall);
  Writer& writer = open(kCall);
  buffer_->check_process();
  if (buffer_->buffer.closed()) {
    throw Closed(std::string(kCall) + ": the buffer is closed");
  }
  const TakenValues taken(values_);
  const FieldTable& table = buffer_->table;
  read_fields(
      arguments, table,
      {.call = kCall, .now = table.observations(), .takes_end = false, .takes_priorities = false},
      values_);
  values_.check_unchanged(table);
  {
    // Within an episode the call may wait for a chunk in which to decide open items.
    const MaybeReleased released(writer.in_episode() || table.copied_bytes() > kCopyWithGil);
    writer.begin_episode();
    write_now(writer, table, values_, table.observations(), 0);
  }
}

/// Tries the append once without waiting. If there is no room, it copies the values that the call
/// took, and waits.
template <class Attempt>
void WriterObject::take(const Rows& rows, bool large, const char* call, const Attempt& attempt) {
  CommitStatus status = CommitStatus::Committed;
  {
    const MaybeReleased released(large);
    status = attempt(nullptr);
  }
  if (status == CommitStatus::Committed) {
    return;
  }
  const Deadline deadline(timeout_);
  if (status != CommitStatus::Closed) {
    values_.keep(buffer_->table, rows.steps, rows.observations);
    status = marks_->hook.wait([&] { return attempt(&deadline); });
  }
  if (status == CommitStatus::Closed) {
    throw Closed(std::string(call) + ": the buffer is closed; the step was not taken");
  }
  if (status != CommitStatus::Committed) {
    buffer_->check_process();
    throw TimedOut(std::string(call) + ": no room within " +
                   std::to_string(std::chrono::duration<double>(deadline.waited()).count()) +
                   " s; " + taken_before() + ". Rate limiter: " + buffer_->buffer.stats().limiter);
  }
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
  const TakenValues taken(values_);
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
  progress_ = {};
  take({1, 1}, table.copied_bytes() > kCopyWithGil, kCall, [&](const Deadline* deadline) {
    if (deadline == nullptr) {
      write_now(writer, table, values_, ~std::uint64_t{0}, 0);
      write_next(writer, table, values_, 0);
    } else {
      writer.set_timeout(deadline->left());
    }
    return writer.commit(commit_.end, commit_.priorities);
  });
}

void WriterObject::append_transition(const Arguments& arguments) {
  constexpr const char* kCall = "Writer.append_transition";
  const InUse in_use(marks_->in_use, "Writer");
  const SharedBuffer::Call under_way(*buffer_, kCall);
  Writer& writer = open_for_append(kCall);
  const TakenValues taken(values_);
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
  progress_ = {};
  // The call may begin an episode within another, and then wait for a chunk.
  take({1, 1}, true, kCall, [&](const Deadline* deadline) {
    if (deadline != nullptr) {
      writer.set_timeout(deadline->left());
    }
    return commit_transition();
  });
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

/// Reads the arguments of append_episode. Returns the number of steps: the first dimension of the
/// arrays.
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
  const TakenValues taken(values_);
  AppendKeywords keywords;
  const std::size_t steps = read_episode(arguments, keywords);
  commit_.end = keywords.end == nullptr ? End::Terminated : end_from(keywords.end);
  take_priorities(keywords.priorities);
  check_priorities(items_of_episode(buffer_->buffer.options().window, steps, commit_.end), kCall);
  values_.check_unchanged(buffer_->table);
  if (buffer_->buffer.closed()) {
    throw Closed(std::string(kCall) + ": the buffer is closed; no step was taken");
  }
  const bool begin = !goes_on(steps);
  take({steps, steps + 1}, true, kCall, [&](const Deadline* deadline) {
    if (begin && deadline == nullptr) {
      writer.begin_episode();
      write_now(writer, buffer_->table, values_, buffer_->table.observations(), 0);
      progress_ = {.steps = steps, .episode = writer.episode_id()};
    }
    return commit_episode(deadline);
  });
  progress_ = {};
}

/// Whether an append_episode of `steps` steps continues behind the steps that the last one took.
bool WriterObject::goes_on(std::size_t steps) const {
  return progress_.done != 0 && progress_.steps == steps && writer_->in_episode() &&
         progress_.episode == writer_->episode_id() && progress_.done == writer_->episode_steps();
}

/// Tells how many steps a call has taken that did not take all, and how to go on.
std::string WriterObject::taken_before() const {
  if (!goes_on(progress_.steps)) {
    return "the step was not taken: call again with the same arguments";
  }
  return std::to_string(progress_.done) + " of " + std::to_string(progress_.steps) +
         " steps were taken: call append_episode again with the same arguments, and it goes on "
         "behind them";
}

/// Commits the steps that are left, until one finds no room. With a deadline, they wait for room.
CommitStatus WriterObject::commit_episode(const Deadline* deadline) {
  const FieldTable& table = buffer_->table;
  for (; progress_.done < progress_.steps; ++progress_.done) {
    const std::size_t row = progress_.done;
    write_now(*writer_, table, values_, ~table.observations(), row);
    for (const FieldInfo& field : table.fields()) {
      if (field.traits().has_next) {
        const auto to = writer_->next(field.field);
        const std::byte* const from = values_.now[field.field.index()].data();
        std::copy_n(from + (row + 1) * to.size(), to.size(), to.data());
      }
    }
    const End end = row + 1 == progress_.steps ? commit_.end : End::Continue;
    std::span<const float> own;
    if (!commit_.priorities.empty()) {
      own = std::span<const float>(commit_.priorities)
                .subspan(progress_.used, writer_->completing(end));
    }
    if (deadline != nullptr) {
      writer_->set_timeout(deadline->left());
    }
    const CommitStatus status = writer_->commit(end, own);
    if (status != CommitStatus::Committed) {
      return status;
    }
    progress_.used += own.size();
  }
  return CommitStatus::Committed;
}

}  // namespace reprise::python
