#include "writer.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace reprise::python {
namespace {

/// 0 for an object without length, which has no step either.
Py_ssize_t length_of(PyObject* given) {
  const Py_ssize_t length = PyObject_Size(given);
  if (length < 0) {
    nb::python_error error;
    if (!error.matches(PyExc_TypeError)) {
      throw std::move(error);
    }
    return 0;
  }
  return length;
}

/// What an append is given beside its fields, by the places in its signature.
constexpr std::size_t kEnd = 0;
constexpr std::size_t kPriorities = 1;

End end_of(const Arguments& arguments, End usual) {
  return arguments[kEnd] == nullptr ? usual : end_from(arguments[kEnd]);
}

/// Steps that the arrays of a call have, by its first field; nothing if it gives none. Observations
/// have one row more if they end with the `final` one.
std::optional<std::size_t> rows_given(const Arguments& arguments, const FieldTable& table,
                                      bool final) {
  for (Py_ssize_t i = 0; i < arguments.keywords(); ++i) {
    const Named named = table.find(arguments.keyword(i));
    if (named.field == nullptr) {
      continue;
    }
    const Py_ssize_t length = length_of(arguments.value(i));
    const Py_ssize_t more = final && named.field->traits().has_next ? 1 : 0;
    if (length <= more) {
      throw std::invalid_argument(std::string(arguments.call()) + ": field '" +
                                  named.field->spec.name + "': expected at least one step" +
                                  (more != 0 ? " and the final observation" : "") +
                                  "; given length " + std::to_string(length));
    }
    return static_cast<std::size_t>(length - more);
  }
  return std::nullopt;
}

/// Refuses an observation that has as many rows as the columns agree on: it lacks the final one.
void check_final(const Arguments& arguments, const FieldTable& table) {
  std::map<Py_ssize_t, const FieldInfo*> observations;
  std::set<Py_ssize_t> columns;
  for (Py_ssize_t i = 0; i < arguments.keywords(); ++i) {
    const Named named = table.find(arguments.keyword(i));
    if (named.field == nullptr || named.next) {
      continue;
    }
    if (named.field->traits().has_next) {
      observations.emplace(length_of(arguments.value(i)), named.field);
    } else {
      columns.insert(length_of(arguments.value(i)));
    }
  }
  const auto found = columns.size() == 1 ? observations.find(*columns.begin()) : observations.end();
  if (found != observations.end()) {
    const std::string rows = std::to_string(found->first);
    throw std::invalid_argument(std::string(arguments.call()) + ": observation '" +
                                found->second->spec.name + "' has " + rows +
                                " rows; expected T + 1 = " + std::to_string(found->first + 1) +
                                ", the final one included");
  }
}

}  // namespace

WriterGroup::WriterGroup(ReplayBuffer& buffer, std::optional<std::size_t> environments,
                         std::chrono::nanoseconds wait)
    : hook(&buffer),
      timeout(wait),
      begun(environments.value_or(1), 0),
      closed(environments.value_or(1), 0) {
  const WriterOptions options{.timeout = timeout, .hook = &hook};
  if (environments) {
    vector.emplace(buffer, *environments, options);
  } else {
    one.emplace(buffer.writer(options));
  }
}

void WriterGroup::close(std::size_t e) {
  if (closed[e] == 0) {
    closed[e] = 1;
    // It may wait for a chunk to decide open items in.
    const Released released;
    const Writer gone = std::move((*this)[e]);
  }
}

WriterObject::WriterObject(std::shared_ptr<SharedBuffer> buffer, std::shared_ptr<WriterGroup> group,
                           std::size_t environment)
    : buffer_(std::move(buffer)),
      group_(std::move(group)),
      environment_(environment),
      values_(buffer_->table),
      loose_(buffer_->table, true) {}

WriterObject::~WriterObject() {
  // Writers may wait for a chunk to decide open items in.
  const Released released(group_.use_count() == 1);
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

std::size_t WriterObject::completing(const Arguments& arguments) {
  const End end = end_from(arguments[kEnd]);
  return open(arguments.call()).completing(end);
}

void WriterObject::begin_episode(Arguments& arguments) {
  Writer& writer = open(arguments.call());
  buffer_->check_process();
  buffer_->check_open(arguments.call());
  const TakenValues taken(values_);
  const FieldTable& table = buffer_->table;
  read_fields(arguments, table, {.now = table.observations()}, values_);
  // Within an episode it may wait for a chunk to decide open items in.
  const Released released(writer.in_episode() || table.copied_bytes() > kCopyWithGil);
  writer.begin_episode();
  group_->begun[environment_] = 1;
  write_now(writer, table, values_, table.observations(), 0);
}

void WriterObject::append(Arguments& arguments) {
  Writer& writer = open(arguments.call());
  buffer_->check_process();
  if (!group_->in_episode(environment_)) {
    buffer_->check_open(arguments.call());
    throw std::logic_error(std::string(arguments.call()) +
                           " outside an episode: call begin_episode first");
  }
  const TakenValues taken(values_);
  const FieldTable& table = buffer_->table;
  read_fields(
      arguments, table,
      {.now = table.columns(), .optional = table.recurrent_states(), .next = table.observations()},
      values_);
  check_states(values_, table, buffer_->window, arguments.call(), writer.episode_steps());
  const End end = end_of(arguments, End::Continue);
  nb::object owner;
  std::span<const float> priorities;
  if (arguments.has(kPriorities)) {
    priorities = priorities_from(arguments[kPriorities], owner);
    check_some(priorities, writer.completing(end), arguments.call());
  }
  const auto again = [&] { return writer.commit(end, priorities); };
  const auto attempt = [&] {
    write_now(writer, table, values_, ~std::uint64_t{0}, 0);
    write_next(writer, table, values_, 0);
    return again();
  };
  episode_ = {};
  commit(*buffer_, *group_, table.copied_bytes() > kCopyWithGil, arguments.call(), attempt, again,
         &step_left);
}

LooseRows::LooseRows(const FieldTable& table, bool one_writer) : one_writer_(one_writer) {
  for (const FieldInfo& field : table.fields()) {
    row_.push_back({field.field, false, {}});
    if (field.traits().has_next) {
      row_.push_back({field.field, true, {}});
    }
  }
}

void LooseRows::append(Arguments& arguments, SharedBuffer& buffer, WriterGroup& group,
                       StepValues& values, std::optional<std::size_t> rows,
                       const std::function<Writer&(std::size_t)>& writer_of) {
  const FieldTable& table = buffer.table;
  read_fields(arguments, table,
              {.now = table.observations() | table.columns() | table.recurrent_states(),
               .next = table.observations(),
               .rows = rows},
              values);
  const std::size_t before = ends_.size();
  if (rows) {
    ends_from(arguments, *rows, ends_);
  } else {
    ends_.assign(1, end_of(arguments, End::Continue));
  }
  const auto state = [&] {
    const Writer& writer = writer_of(std::min(taken_, ends_.size() - 1));
    return std::pair(writer.episode_id(), writer.episode_steps());
  };
  if (taken_ != 0 && (ends_.size() != before || state() != left_)) {
    taken_ = 0;
  }
  const auto add = [&] {
    const std::size_t at_once = one_writer_ ? ends_.size() : 1;
    while (taken_ < ends_.size()) {
      const std::size_t first = one_writer_ ? 0 : taken_;
      for (AnyValue& value : row_) {
        const std::size_t i = value.field.index();
        const std::size_t bytes = table.fields()[i].spec.bytes;
        value.bytes = {(value.next ? values.next : values.now)[i].data() + first * bytes,
                       at_once * bytes};
      }
      std::size_t one = 0;  // What a call for a single row took.
      const CommitStatus status = writer_of(taken_).add_transitions(
          std::span(ends_).subspan(first, at_once), row_, one_writer_ ? taken_ : one);
      taken_ += one;
      if (status != CommitStatus::Committed) {
        return status;
      }
    }
    return CommitStatus::Committed;
  };
  try {
    // An episode may begin within one, which may wait for a chunk: never with the GIL.
    commit(buffer, group, true, arguments.call(), add, add, [&] {
      return rows ? std::to_string(taken_) + " of " + std::to_string(*rows) +
                        " transitions were taken: call again with the same arguments, and it goes "
                        "on behind them"
                  : step_left();
    });
  } catch (const std::logic_error&) {
    taken_ = 0;  // Refused: the same call would be refused again.
    throw;
  } catch (...) {
    left_ = state();
    throw;
  }
  taken_ = 0;
}

void WriterObject::append_loose(Arguments& arguments, std::optional<std::size_t> rows) {
  Writer& writer = open(arguments.call());
  buffer_->check_process();
  const TakenValues taken(values_);
  episode_ = {};
  loose_.append(arguments, *buffer_, *group_, values_, rows, [&](std::size_t /*row*/) -> Writer& {
    group_->begun[environment_] = 1;
    return writer;
  });
}

void WriterObject::append_transition(Arguments& arguments) {
  append_loose(arguments, std::nullopt);
}

void WriterObject::append_transitions(Arguments& arguments) {
  append_loose(arguments, rows_given(arguments, buffer_->table, false).value_or(1));
}

/// Steps of the episode that a call gives: the first dimension of its arrays.
std::size_t WriterObject::read_episode(Arguments& arguments) {
  const FieldTable& table = buffer_->table;
  const std::optional<std::size_t> steps = rows_given(arguments, table, true);
  check_final(arguments, table);
  read_fields(arguments, table,
              {.now = table.observations() | table.columns() | table.recurrent_states(),
               .rows = steps,
               .observation_rows = steps ? std::optional(*steps + 1) : std::nullopt},
              values_);
  return steps.value_or(0);
}

void WriterObject::append_episode(Arguments& arguments) {
  Writer& writer = open(arguments.call());
  buffer_->check_process();
  const TakenValues taken(values_);
  const std::size_t steps = read_episode(arguments);
  const End end = end_of(arguments, End::Terminated);
  nb::object owner;
  std::span<const float> priorities;
  if (arguments.has(kPriorities)) {
    priorities = priorities_from(arguments[kPriorities], owner);
  }
  const std::size_t items = writer.check_episode(steps, end, priorities);
  if (arguments.has(kPriorities)) {
    check_some(priorities, items, arguments.call());
  }
  buffer_->check_open(arguments.call());
  const bool begin = !goes_on(steps);
  const auto again = [&] { return commit_episode(end, priorities); };
  const auto attempt = [&] {
    if (begin) {
      writer.begin_episode();
      group_->begun[environment_] = 1;
      episode_ = {.steps = steps, .done = 0, .used = 0, .id = writer.episode_id()};
      write_now(writer, buffer_->table, values_, buffer_->table.observations(), 0);
    }
    return again();
  };
  commit(*buffer_, *group_, true, arguments.call(), attempt, again, [&] { return episode_left(); });
  episode_ = {};
}

/// Whether an append_episode of so many steps goes on behind those that the last one took.
bool WriterObject::goes_on(std::size_t steps) const {
  const Writer& writer = (*group_)[environment_];
  return episode_.done != 0 && episode_.steps == steps && writer.in_episode() &&
         writer.episode_id() == episode_.id && writer.episode_steps() == episode_.done;
}

/// How many steps were taken of an append_episode that did not take all, and how to go on.
std::string WriterObject::episode_left() const {
  if (!goes_on(episode_.steps)) {
    return step_left();
  }
  return std::to_string(episode_.done) + " of " + std::to_string(episode_.steps) +
         " steps were taken: call append_episode again with the same arguments, and it goes on "
         "behind them";
}

/// Commits the steps that are left, until one finds no room.
CommitStatus WriterObject::commit_episode(End end, std::span<const float> priorities) {
  const FieldTable& table = buffer_->table;
  Writer& writer = (*group_)[environment_];
  for (; episode_.done < episode_.steps; ++episode_.done) {
    const std::size_t row = episode_.done;
    write_now(writer, table, values_, ~table.observations(), row);
    for (const FieldInfo& field : table.fields()) {
      if (field.traits().has_next) {
        const auto to = writer.next(field.field);
        const std::byte* const from = values_.now[field.field.index()].data();
        std::copy_n(from + (row + 1) * to.size(), to.size(), to.data());
      }
    }
    const End last = row + 1 == episode_.steps ? end : End::Continue;
    std::span<const float> own;
    if (!priorities.empty()) {
      own = priorities.subspan(episode_.used, writer.completing(last));
    }
    const CommitStatus status = writer.commit(last, own);
    if (status != CommitStatus::Committed) {
      return status;
    }
    episode_.used += own.size();
  }
  return CommitStatus::Committed;
}

}  // namespace reprise::python
