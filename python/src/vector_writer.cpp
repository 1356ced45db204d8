#include "vector_writer.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace reprise::python {
namespace {

constexpr std::size_t kFinal = 1;
constexpr std::size_t kPriorities = 2;

/// The environments that a call names, which its arrays have a row each of; null if it names none.
PyObject* env_ids_of(const Arguments& arguments) {
  for (Py_ssize_t i = 0; i < arguments.keywords(); ++i) {
    if (PyUnicode_CompareWithASCIIString(arguments.keyword(i), "env_ids") == 0) {
      return arguments.value(i) == Py_None ? nullptr : arguments.value(i);
    }
  }
  return nullptr;
}

/// Whether a call names fields, and not `env_ids` alone.
bool names_fields(const Arguments& arguments) {
  for (Py_ssize_t i = 0; i < arguments.keywords(); ++i) {
    if (PyUnicode_CompareWithASCIIString(arguments.keyword(i), "env_ids") != 0) {
      return true;
    }
  }
  return false;
}

/// Whether it is a mapping: sequences and arrays have items too, but no keys.
bool has_keys(nb::handle given) {
  const nb::object keys = nb::steal(PyObject_GetAttrString(given.ptr(), "keys"));
  if (!keys) {
    nb::python_error error;
    if (!error.matches(PyExc_AttributeError)) {
      throw std::move(error);
    }
  }
  return static_cast<bool>(keys);
}

}  // namespace

/// Chooses the environments of a call's rows: all if `env_ids` is null.
void VectorWriterObject::choose(PyObject* env_ids) {
  std::span<const std::size_t> all = writers().chosen();
  ids_.assign(all.begin(), all.end());
  if (env_ids == nullptr) {
    writers().choose_all();
  } else {
    const nb::object array = array_of(env_ids, "env_ids");
    if (Array(array).kind() == 'b') {
      throw WrongKind("env_ids: expected the numbers of environments; given " +
                      Array(array).described() + ": use numpy.flatnonzero");
    }
    std::vector<std::size_t> chosen(Array(array).size());
    if (!chosen.empty()) {  // An empty list has no type.
      const nb::object owner = row_from(array, DType::I64, "env_ids", std::nullopt);
      std::memcpy(chosen.data(), Array(owner).data(), chosen.size() * sizeof(std::size_t));
    }
    for (const std::size_t id : chosen) {
      if (static_cast<std::int64_t>(id) < 0) {
        throw std::invalid_argument(
            "env_ids: environment " + std::to_string(static_cast<std::int64_t>(id)) +
            "; allowed: each of 0 to " + std::to_string(size_ - 1) + " once");
      }
    }
    writers().choose(chosen);
  }
  all = writers().chosen();
  if (!std::equal(all.begin(), all.end(), ids_.begin(), ids_.end())) {
    unfinished_ = false;
    loose_.start_anew();
  }
}

std::span<const bool> VectorWriterObject::resets() {
  if (autoreset_ != AutoReset::NextStep) {
    return {};
  }
  for (std::size_t row = 0; row < rows(); ++row) {
    resets_[row] = resetting_[environment(row)];
  }
  return {resets_.get(), rows()};
}

void VectorWriterObject::check_writers(const char* call) const {
  if (std::find(group_->closed.begin(), group_->closed.end(), 1) != group_->closed.end()) {
    throw Closed(std::string(call) + ": the writer is closed");
  }
}

void VectorWriterObject::check_open(const char* call) const {
  check_writers(call);
  buffer_->check_process();
}

/// Copies [E, ...] rows of the fields of a mask to the current or the next steps.
void VectorWriterObject::write_rows(std::uint64_t mask, bool next, bool to_next) {
  mask &= next ? values_.given_next : values_.given_now;
  for (const FieldInfo& field : buffer_->table.fields()) {
    if ((mask & field.bit()) != 0) {
      const Value& value = (next ? values_.next : values_.now)[field.field.index()];
      const std::span<const std::byte> given(value.data(), rows() * field.spec.bytes);
      to_next ? writers().next(field.field, given) : writers().now(field.field, given);
    }
  }
}

/// The simulator was told to reset the chosen environments, without an answer yet: their episodes
/// end here, and the next append of each brings its first observations.
void VectorWriterObject::await_resets() {
  const Released released;  // An episode that is cut short may wait for a chunk.
  for (const std::size_t e : writers().chosen()) {
    if (!writers()[e].in_episode() || writers()[e].episode_steps() != 0) {
      writers()[e].begin_episode();
    }
    group_->begun[e] = 0;
    resetting_[e] = true;
  }
}

void VectorWriterObject::begin(Arguments& arguments) {
  check_open(arguments.call());
  buffer_->check_open(arguments.call());
  choose(env_ids_of(arguments));
  if (autoreset_ == AutoReset::NextStep && !names_fields(arguments)) {
    await_resets();
    return;
  }
  const TakenValues taken(values_);
  const FieldTable& table = buffer_->table;
  read_fields(arguments, table, {.now = table.observations(), .rows = rows()}, values_);
  const Released released(table.copied_bytes() * rows() > kCopyWithGil);
  for (const std::size_t e : writers().chosen()) {
    if (!writers()[e].in_episode()) {
      writers()[e].begin_episode();
    }
    if (writers()[e].episode_steps() == 0) {
      group_->begun[e] = 1;
      resetting_[e] = false;
    }
  }
  write_rows(table.observations(), false, false);
}

/// An environment whose episode was begun by hand since it ended is not being reset.
void VectorWriterObject::end_resets() {
  for (std::size_t e = 0; e < size_; ++e) {
    resetting_[e] = resetting_[e] && group_->begun[e] == 0;
  }
}

/// RuntimeError for one outside an episode, or Closed once the buffer is, ValueError for one that
/// needs recurrent states that are not given.
void VectorWriterObject::check_environments(const char* call) const {
  for (const std::size_t e : writers().chosen()) {
    if (resetting_[e]) {
      continue;
    }
    if (!group_->in_episode(e)) {
      buffer_->check_open(call);
      throw std::logic_error(std::string(call) + ": environment " + std::to_string(e) +
                             " is outside an episode: give its first observations to begin");
    }
    check_states(values_, buffer_->table, buffer_->window, call, writers()[e].episode_steps(), e);
  }
}

/// Converts rows in a list, tuple or array of objects to an array [E, *shape]. Rows of environments
/// that do not end are not read, because simulators have None there.
nb::object VectorWriterObject::gathered(const nb::object& given, const FieldInfo& field) const {
  const bool one_by_one = PyList_Check(given.ptr()) || PyTuple_Check(given.ptr()) ||
                          (is_array(given) && Array(given).kind() == 'O');
  if (!one_by_one || PyObject_Size(given.ptr()) != static_cast<Py_ssize_t>(rows())) {
    return given;
  }
  std::vector<std::size_t> shape = field.spec.shape;
  shape.insert(shape.begin(), rows());
  nb::object made = empty_array(field.spec.dtype, shape);
  std::byte* const to = Array(made).data();
  std::fill_n(to, rows() * field.spec.bytes, std::byte{0});
  for (std::size_t row = 0; row < rows(); ++row) {
    if (ends(row)) {
      Value value;
      const nb::object one = given[row];
      value.take(one, field, "final.", std::nullopt);
      std::copy_n(value.data(), field.spec.bytes, to + row * field.spec.bytes);
    }
  }
  return made;
}

/// The final observations of environments that end, if any does.
void VectorWriterObject::read_final(nb::handle given, const char* call) {
  const FieldTable& table = buffer_->table;
  const std::string name = std::string(call) + ": final";
  const bool is_given = given.is_valid() && !given.is_none();
  if (is_given && autoreset_ != AutoReset::SameStep) {
    throw std::invalid_argument(name + " is taken with autoreset='same_step' alone; it is '" +
                                std::string(kAutoResets[static_cast<std::size_t>(autoreset_)]) +
                                "', whose next observations are the final ones");
  }
  if (is_given && !has_keys(given)) {
    throw WrongKind(name + " is " + kind_text(given) +
                    "; allowed: a dict of arrays, the final observations, [E, ...], by name: " +
                    table.names(table.observations()));
  }
  if (is_given) {
    for (const nb::handle key : nb::list(checked(PyMapping_Keys(given.ptr())))) {
      const Named named = table.find(key.ptr());
      if (named.field == nullptr || named.next || !named.field->traits().has_next) {
        throw std::invalid_argument(name + ": unknown field " + repr_of(key) +
                                    "; fields: " + table.names(table.observations()));
      }
    }
  }
  bool any = false;
  for (std::size_t row = 0; row < rows() && !any; ++row) {
    any = ends(row);
  }
  if (autoreset_ != AutoReset::SameStep || !any) {
    return;
  }
  if (!is_given) {
    throw std::invalid_argument(
        name +
        " is missing: an environment ended, and with autoreset='same_step' next observations are "
        "those after the reset; give a dict of the final observations, [E, ...], by name: " +
        table.names(table.observations()));
  }
  for (const FieldInfo& field : table.fields()) {
    if (!field.traits().has_next) {
      continue;
    }
    const nb::object found = nb::steal(PyObject_GetItem(given.ptr(), field.name));
    if (!found) {
      nb::python_error error;
      if (!error.matches(PyExc_KeyError)) {
        throw std::move(error);
      }
      throw std::invalid_argument(name + ": missing field " + field.spec.name);
    }
    const nb::object given_rows = gathered(found, field);
    Value& taken = final_.next[field.field.index()];
    final_.given_next |= field.bit();
    taken.take(given_rows, field, "final.", rows());
    if (taken.data() == Array(given_rows).data()) {
      taken.own(given_rows);
    }
    for (std::size_t row = 0; row < rows(); ++row) {
      if (ends(row)) {
        taken.check_finite(field, "final.", row, 1);
      }
    }
  }
}

/// The final observations in place of those after the reset.
void VectorWriterObject::write_final() {
  for (std::size_t row = 0; final_.given_next != 0 && row < rows(); ++row) {
    if (ends(row)) {
      write_next(writers()[environment(row)], buffer_->table, final_, row);
    }
  }
}

/// After all environments took their steps: those that were reset begin with the next observations,
/// which C++ takes where an episode begins alone.
void VectorWriterObject::begin_episodes() {
  bool any = false;
  for (std::size_t row = 0; row < rows(); ++row) {
    const std::size_t e = environment(row);
    const bool ended = ends(row);
    any = any || ended || resetting_[e];
    if (autoreset_ != AutoReset::SameStep && (ended || resetting_[e])) {
      group_->begun[e] = resetting_[e] ? 1 : 0;
    }
    resetting_[e] = ended && autoreset_ == AutoReset::NextStep;
  }
  if (any && autoreset_ != AutoReset::Disabled) {
    write_rows(buffer_->table.observations(), true, false);
  }
}

void VectorWriterObject::append(Arguments& arguments) {
  check_open(arguments.call());
  choose(env_ids_of(arguments));
  end_resets();
  const TakenValues taken(values_);
  const TakenValues taken_final(final_);
  const FieldTable& table = buffer_->table;
  read_fields(arguments, table,
              {.now = table.columns(),
               .optional = table.recurrent_states(),
               .next = table.observations(),
               .rows = rows()},
              values_);
  ends_from(arguments, rows(), ends_);
  if (!unfinished_) {
    check_environments(arguments.call());
  }
  read_final(arguments[kFinal], arguments.call());
  nb::object owner;
  std::span<const float> priorities;
  if (arguments.has(kPriorities)) {
    priorities = priorities_from(arguments[kPriorities], owner);
    if (!unfinished_) {
      check_some(priorities, writers().completing(ends_, resets()), arguments.call());
    }
  }
  const auto again = [&] {
    const CommitStatus status = writers().commit(ends_, priorities, resets());
    if (status == CommitStatus::Committed) {
      begin_episodes();
    }
    unfinished_ = status != CommitStatus::Committed && status != CommitStatus::Closed;
    return status;
  };
  const auto attempt = [&] {
    write_rows(~table.observations(), false, false);
    write_rows(table.observations(), true, true);
    write_final();
    return again();
  };
  try {
    commit(*buffer_, *group_, table.copied_bytes() * rows() > kCopyWithGil, arguments.call(),
           attempt, again, [] {
             return "the steps of some environments were not taken: call again with the same "
                    "arguments, which takes no step twice";
           });
  } catch (const std::system_error&) {
    unfinished_ = true;
    throw;
  }
}

/// No auto-reset: observations say where an episode goes on.
void VectorWriterObject::append_transitions(Arguments& arguments) {
  check_open(arguments.call());
  choose(env_ids_of(arguments));
  const TakenValues taken(values_);
  unfinished_ = false;
  loose_.append(arguments, *buffer_, *group_, values_, rows(), [&](std::size_t row) -> Writer& {
    group_->begun[environment(row)] = 1;
    return writers()[environment(row)];
  });
}

std::size_t VectorWriterObject::completing(const Arguments& arguments) {
  check_writers(arguments.call());
  choose(arguments.has(1) ? arguments[1] : nullptr);
  ends_from(arguments, rows(), ends_);
  end_resets();
  return writers().completing(ends_, resets());
}

nb::object VectorWriterObject::item(PyObject* given) const {
  const auto environment = value_from<Py_ssize_t>(given, "VectorWriter: environment");
  if (environment < -size() || environment >= size()) {
    throw std::out_of_range("environment " + std::to_string(environment) + " of " +
                            std::to_string(size()));
  }
  const Py_ssize_t place = environment < 0 ? environment + size() : environment;
  return make_object<WriterObject>(buffer_, group_, static_cast<std::size_t>(place));
}

}  // namespace reprise::python
