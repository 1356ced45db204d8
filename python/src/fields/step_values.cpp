#include "fields.hpp"

#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <set>

namespace reprise::python {
namespace {

std::string accepted_names(const FieldTable& table, const ExpectedFields& expected) {
  const std::string now = table.names(expected.now | expected.optional);
  const std::string next = table.names(expected.next, "next_");
  return now + (now.empty() || next.empty() ? "" : ", ") + next;
}

/// What to write in place of a keyword that other replay buffers use; empty for other names.
std::string replacement_hint(const std::string& name) {
  const auto is_among = [word = " " + name + " "](std::string_view words) {
    return words.find(word) != std::string_view::npos;
  };
  if (is_among(" done dones terminal terminals terminated terminations truncated truncations ")) {
    return ": how a step ends is `end`, such as end=reprise.ends(terminated, truncated)";
  }
  if (is_among(" obs observation state next_obs next_observation next_state ")) {
    return ": observations have the names of the schema";
  }
  if (is_among(" timeout ")) {
    return ": a writer is made with its timeout, such as replay.writer(timeout=1.0)";
  }
  return is_among(" priority td_error td_errors ") ? ": priorities are `priorities`" : "";
}

[[noreturn]] void refuse_name(const char* call, PyObject* name, const NamedField& named,
                              const FieldTable& table, const ExpectedFields& expected) {
  std::string message = std::string(call) + ": ";
  if (named.field == nullptr) {
    message += "unknown field " + repr_of(name) + replacement_hint(str_of(name));
  } else if (!named.next && (expected.next & named.field->bit()) != 0) {
    message += "field " + repr_of(name) +
               " is an observation: what follows the step is given as 'next_" +
               named.field->spec.name + "', the first of an episode when it begins";
  } else {
    message += "field " + repr_of(name) + " is not taken by this call";
  }
  fail(message, "; fields: ", accepted_names(table, expected));
}

void check_missing(const char* call, const StepValues& values, const FieldTable& table,
                   const ExpectedFields& expected) {
  const std::uint64_t missing = expected.now & ~values.given_now;
  const std::uint64_t missing_next = expected.next & ~values.given_next;
  const int count = std::popcount(missing) + std::popcount(missing_next);
  if (count == 0) {
    return;
  }
  const std::string names = table.names(missing);
  const std::string next_names = table.names(missing_next, "next_");
  fail(call, ": missing field", count > 1 ? "s " : " ", names,
       names.empty() || next_names.empty() ? "" : ", ", next_names);
}

/// The length of a value; 0 if it has no length, such as a number, which is refused later.
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

/// Copies a value. The most frequent sizes are constants, which take one instruction each.
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

template <class Call>
void for_each_bit(std::uint64_t mask, const Call& call) {
  for (; mask != 0; mask &= mask - 1) {
    call(static_cast<std::size_t>(std::countr_zero(mask)));
  }
}

/// The number of steps, where observations have `more_observations` rows more than steps.
std::optional<std::size_t> count(const Fields& fields, const FieldTable& table,
                                 Py_ssize_t more_observations) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const NamedField named = table.named(fields, i);
    if (named.field == nullptr) {
      continue;
    }
    const Py_ssize_t length = length_of(fields.value(i));
    const Py_ssize_t final_rows = named.field->traits().has_next ? more_observations : 0;
    if (length <= final_rows) {
      fail(fields.call(), ": field '", named.field->spec.name, "': expected at least one step",
           final_rows != 0 ? " and the final observation" : "", "; given length ", length);
    }
    return static_cast<std::size_t>(length - final_rows);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> count_rows(const Fields& fields, const FieldTable& table) {
  return count(fields, table, 0);
}

std::optional<std::size_t> count_steps(const Fields& fields, const FieldTable& table) {
  return count(fields, table, 1);
}

void check_final(const Fields& fields, const FieldTable& table) {
  std::map<Py_ssize_t, const FieldInfo*> observations;  // By length.
  std::set<Py_ssize_t> columns;                         // The lengths.
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const NamedField named = table.named(fields, i);
    if (named.field == nullptr || named.next) {
      continue;
    }
    if (named.field->traits().has_next) {
      observations.emplace(length_of(fields.value(i)), named.field);
    } else {
      columns.insert(length_of(fields.value(i)));
    }
  }
  if (columns.size() != 1) {
    return;
  }
  const Py_ssize_t steps = *columns.begin();
  if (const auto lacking = observations.find(steps); lacking != observations.end()) {
    fail(fields.call(), ": observation '", lacking->second->spec.name, "' has ", steps,
         " rows; expected T + 1 = ", steps + 1, ", the final one included");
  }
}

void read_fields(const Fields& fields, const FieldTable& table, const ExpectedFields& expected,
                 StepValues& values) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    PyObject* const name = fields.name(i);
    if (name == nullptr) {
      continue;
    }
    const NamedField named = table.find(name);
    const std::uint64_t allowed = named.next ? expected.next : expected.now | expected.optional;
    if (named.field == nullptr || (allowed & named.field->bit()) == 0) {
      refuse_name(fields.call(), name, named, table, expected);
    }
    const FieldInfo& field = *named.field;
    const auto rows = field.traits().has_next && !named.next && expected.observation_rows
                          ? expected.observation_rows
                          : expected.rows;
    const GivenIn in{fields.call(), named.next ? "next_" : ""};
    Value& value = (named.next ? values.next : values.now)[field.field.index()];
    std::uint64_t& given_mask = named.next ? values.given_next : values.given_now;
    given_mask |= field.bit();
    value.assign(fields.value(i), field, in, rows);
    if (expected.unchecked) {
      continue;
    }
    value.check_range(field, in, 0, rows.value_or(1));
    // A step without rows is left to the check of its commit, which comes before anything is
    // written. First observations, which come without next ones, have no commit.
    const bool is_committed = !rows && expected.next != 0;
    value.check_finite(field, in, 0, is_committed ? 0 : rows.value_or(1));
  }
  check_missing(fields.call(), values, table, expected);
}

void check_rows(const char* call, const FieldTable& table, const StepValues& values,
                std::size_t first, std::size_t rows, bool next_alone) {
  for (const FieldInfo& field : table.fields()) {
    const auto check = [&](const Value& value, GivenIn in) {
      value.check_range(field, in, first, rows);
      value.check_finite(field, in, first, rows);
    };
    const std::size_t i = field.field.index();
    if (!next_alone && (values.given_now & field.bit()) != 0) {
      check(values.now[i], {call, {}});
    }
    if ((values.given_next & field.bit()) != 0) {
      check(values.next[i], {call, "next_"});
    }
  }
}

void check_states(const StepValues& values, const FieldTable& table, const Window& window,
                  const char* call, std::uint64_t position,
                  std::optional<std::size_t> environment) {
  const std::uint64_t missing = table.state_mask() & ~values.given_now;
  if (missing == 0 || position % item_every(window) != 0) {
    return;
  }
  fail(call, ": missing field", std::popcount(missing) > 1 ? "s " : " ", table.names(missing), ": ",
       environment ? "environment " + std::to_string(*environment) + " is" : "the episode is",
       " at position ", position, ", where an item may begin, which needs the recurrent state");
}

std::span<const float> priorities_or_none(const std::optional<Priorities>& priorities,
                                          std::size_t items, const char* call) {
  if (priorities && priorities->values.empty() && items != 0) {
    fail(call, ": 0 priorities; this call decides ", items, " items");
  }
  return priorities ? priorities->values : std::span<const float>();
}

std::size_t hash_of(std::span<const AnyValue> values, std::span<const End> ends) {
  constexpr std::size_t kMix =
      0x9E3779B97F4A7C15U;  // 2^64 / the golden ratio: odd, bits irregular.
  std::size_t hash = 0;
  const auto add = [&hash](std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    hash = hash * kMix + std::hash<std::string_view>()(text);
  };
  for (const AnyValue& value : values) {
    add(value.bytes);
  }
  add(std::as_bytes(ends));
  return hash;
}

void write_now(Writer& writer, const FieldTable& table, const StepValues& values) {
  for_each_bit(values.given_now, [&](std::size_t i) {
    copy(writer.now(table.fields()[i].field), values.now[i].data());
  });
}

void write_next(Writer& writer, const FieldTable& table, const StepValues& values) {
  for_each_bit(values.given_next, [&](std::size_t i) {
    copy(writer.next(table.fields()[i].field), values.next[i].data());
  });
}

}  // namespace reprise::python
