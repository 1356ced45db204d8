#include "step_values.hpp"

#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>

namespace reprise::python {
namespace {

struct Keywords {
  PyObject* names[3] = {nullptr, nullptr, nullptr};  ///< end, priorities, final.
};

/// Interned strings, kept for as long as the interpreter lives.
Keywords& keywords() noexcept {
  static Keywords made;
  return made;
}

/// A name in quotes, even if it is not valid UTF-8.
std::string quoted(PyObject* name) {
  return py::repr(py::handle(name)).cast<std::string>();
}

std::string taken_names(const FieldTable& table, const Expected& expected) {
  const std::string now = table.names(expected.now | expected.optional);
  const std::string next = table.names(expected.next, "next_");
  return now + (now.empty() || next.empty() ? "" : ", ") + next;
}

[[noreturn]] void refuse_name(PyObject* name, const Named& named, const FieldTable& table,
                              const Expected& expected) {
  std::string message = std::string(expected.call) + ": ";
  if (named.field == nullptr) {
    message += "unknown field " + quoted(name);
  } else if (!named.next && (expected.next & named.field->bit()) != 0) {
    message += "field " + quoted(name) + " is an observation: what follows the step is given as '" +
               named.field->next_name.cast<std::string>() +
               "', the first of an episode when it begins";
  } else {
    message += "field " + quoted(name) + " is not taken by this call";
  }
  throw std::invalid_argument(message + "; fields: " + taken_names(table, expected));
}

void check_missing(const StepValues& values, const FieldTable& table, const Expected& expected) {
  const std::uint64_t now = expected.now & ~values.given_now;
  const std::uint64_t next = expected.next & ~values.given_next;
  if ((now | next) == 0) {
    return;
  }
  const std::string names = table.names(now);
  const std::string next_names = table.names(next, "next_");
  throw std::invalid_argument(std::string(expected.call) + ": missing field" +
                              (std::popcount(now) + std::popcount(next) > 1 ? "s " : " ") + names +
                              (names.empty() || next_names.empty() ? "" : ", ") + next_names);
}

/// True if the name was a keyword that is no field.
bool read_keyword(PyObject* name, PyObject* value, const Expected& expected, AppendKeywords& read) {
  switch (keyword_index(name, keywords().names)) {
    case 0:
      read.end = value;
      return expected.takes_end;
    case 1:
      read.priorities = value;
      return expected.takes_priorities;
    case 2:
      read.final = value;
      return expected.takes_final;
    default:
      return false;
  }
}

inline void copy(std::span<std::byte> to, const std::byte* from) noexcept {
  switch (to.size()) {
    case 1:
      to[0] = *from;
      return;
    case 4:
      std::memcpy(to.data(), from, 4);
      return;
    case 8:
      std::memcpy(to.data(), from, 8);
      return;
    default:
      std::memcpy(to.data(), from, to.size());
  }
}

}  // namespace

void init_keywords() {
  constexpr const char* kNames[] = {"end", "priorities", "final"};
  for (std::size_t i = 0; i < 3; ++i) {
    keywords().names[i] = PyUnicode_InternFromString(kNames[i]);
    if (keywords().names[i] == nullptr) {
      throw py::error_already_set();
    }
  }
}

AppendKeywords read_fields(const Arguments& arguments, const FieldTable& table,
                           const Expected& expected, StepValues& values) {
  check_positional(arguments, 0, expected.call);
  AppendKeywords read;
  for (py::ssize_t i = 0; i < arguments.named(); ++i) {
    PyObject* const name = arguments.name(i);
    PyObject* const value = arguments.value(i);
    const Named named = table.find(name);
    if (named.field == nullptr && read_keyword(name, value, expected, read)) {
      continue;
    }
    const std::uint64_t allowed = named.next ? expected.next : expected.now | expected.optional;
    if (named.field == nullptr || (allowed & named.field->bit()) == 0) {
      refuse_name(name, named, table, expected);
    }
    const FieldInfo& field = *named.field;
    const std::size_t index = field.field.index();
    const auto rows = field.traits().has_next && !named.next && expected.observation_rows
                          ? expected.observation_rows
                          : expected.rows;
    const char* const prefix = named.next ? "next_" : "";
    Value& taken = (named.next ? values.next : values.now)[index];
    taken.take(value, field, prefix, rows);
    (named.next ? values.given_next : values.given_now) |= field.bit();
    for (std::size_t row = 0; field.finite && row < rows.value_or(0); ++row) {
      taken.check_finite(field, prefix, row);
    }
  }
  check_missing(values, table, expected);
  return read;
}

void check_states(std::uint64_t missing, const FieldTable& table, const char* call,
                  std::uint64_t position, std::uint64_t every,
                  std::optional<std::size_t> environment) {
  if (missing == 0 || position % every != 0) {
    return;
  }
  throw std::invalid_argument(
      std::string(call) + ": missing field" + (std::popcount(missing) > 1 ? "s " : " ") +
      table.names(missing) + ": " +
      (environment ? "environment " + std::to_string(*environment) + " is" : "the episode is") +
      " at position " + std::to_string(position) +
      ", where an item may begin, which needs the recurrent state");
}

void write_now(Writer& writer, const FieldTable& table, const StepValues& values,
               std::uint64_t mask, std::size_t row) {
  for (mask &= values.given_now; mask != 0; mask &= mask - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(mask));
    const FieldInfo& field = table.fields()[i];
    copy(writer.now(field.field), values.now[i].data() + row * field.spec.bytes);
  }
}

void write_next(Writer& writer, const FieldTable& table, const StepValues& values,
                std::size_t row) {
  for (std::uint64_t mask = values.given_next; mask != 0; mask &= mask - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(mask));
    const FieldInfo& field = table.fields()[i];
    copy(writer.next(field.field), values.next[i].data() + row * field.spec.bytes);
  }
}

}  // namespace reprise::python
