#pragma once

#include <reprise/item.hpp>
#include <reprise/schema.hpp>
#include <reprise/window.hpp>
#include <reprise/writer.hpp>

#include "binding/call.hpp"
#include "binding/numpy.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Finds fields by their Python names, and converts values to bytes of rows. It needs the GIL.
namespace reprise::python {

/// One field as Python sees it.
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): every member is given when it is made.
struct FieldInfo {
  FieldSpec spec;
  AnyField field;
  char kind;            ///< numpy's kind: 'f', 'i', 'u' or 'b'.
  PyObject* name;       ///< Interned, as is `next_name`; never released.
  PyObject* next_name;  ///< "next_" and the name.
  bool finite;          ///< Whether the field's values must be finite: `Schema::require_finite`.

  [[nodiscard]] const RoleTraits& traits() const noexcept { return spec.traits(); }
  [[nodiscard]] std::uint64_t bit() const noexcept { return std::uint64_t{1} << field.index(); }
};

/// The mask of all fields. In a mask of fields each one has its `FieldInfo::bit`.
inline constexpr std::uint64_t kAllFields = ~std::uint64_t{0};

/// The field that a keyword or a batch's key names.
struct NamedField {
  const FieldInfo* field = nullptr;  ///< Null: the name is that of no field.
  bool next = false;
};

/// The fields of a schema by their Python names. Immutable; needs the GIL.
class FieldTable {
 public:
  /// ValueError for names that Python's keywords make ambiguous.
  explicit FieldTable(const Schema& schema);

  [[nodiscard]] const std::vector<FieldInfo>& fields() const noexcept { return fields_; }

  /// Finds a field by "x", or an observation also by "next_x".
  [[nodiscard]] NamedField find(PyObject* name) const noexcept;
  /// Finds the field that keyword i of a call names; none if it names a parameter.
  [[nodiscard]] NamedField named(const Fields& fields, std::size_t i) const noexcept {
    PyObject* const name = fields.name(i);
    return name == nullptr ? NamedField() : find(name);
  }

  [[nodiscard]] std::uint64_t observation_mask() const noexcept { return observation_mask_; }
  /// The mask of fields that are neither observations nor recurrent states nor the version.
  [[nodiscard]] std::uint64_t column_mask() const noexcept { return column_mask_; }
  /// The mask of recurrent states.
  [[nodiscard]] std::uint64_t state_mask() const noexcept { return state_mask_; }
  /// The mask of the version of the policy, which a step may leave out.
  [[nodiscard]] std::uint64_t version_mask() const noexcept { return version_mask_; }
  /// The bytes that one step copies: both observations, columns and recurrent states.
  [[nodiscard]] std::size_t copied_bytes() const noexcept { return copied_bytes_; }

  /// The names of the fields in the mask, each after the prefix: "next_state, next_goal".
  [[nodiscard]] std::string names(std::uint64_t mask, std::string_view prefix = {}) const;

 private:
  struct Entry {
    PyObject* name = nullptr;
    NamedField named;
  };

  std::vector<FieldInfo> fields_;
  std::vector<Entry> entries_;
  std::uint64_t observation_mask_ = 0;
  std::uint64_t column_mask_ = 0;
  std::uint64_t state_mask_ = 0;
  std::uint64_t version_mask_ = 0;
  std::size_t copied_bytes_ = 0;
};

/// A text such as "Writer.append: field 'state'".
[[nodiscard]] std::string field_text(std::string_view call, std::string_view name);

/// ValueError if a field of this name and role would make a FieldTable refuse the schema.
void check_name(const char* call, const Schema& schema, std::string_view name, Role role);

/// Where a value was given: the call, and a text before the field's name there, such as "next_".
struct GivenIn {
  const char* call = nullptr;
  std::string_view prefix = {};
};

/// The bytes of one field's value, valid while this object and the Python value live.
class Value {
 public:
  /// Takes a value of the field's shape, after a dimension of `rows` if there are any, and converts
  /// it if necessary. A plain array of the right type is referred to, not copied.
  ///
  /// TypeError for a type that does not convert, ValueError for a wrong shape or an integer out of
  /// range; either names the call, the field, what is expected and what was given.
  void assign(nb::handle given, const FieldInfo& field, GivenIn in,
              std::optional<std::size_t> rows);

  /// ValueError for a discount outside 0 to 1 and a version below 0 in these rows.
  void check_range(const FieldInfo& field, GivenIn in, std::size_t first, std::size_t rows) const;
  /// ValueError for a value of these rows that must be finite and is not. Call it before any row is
  /// written: the commit of a bad row would be refused too, but after earlier rows are in the
  /// buffer.
  void check_finite(const FieldInfo& field, GivenIn in, std::size_t first, std::size_t rows) const;

  [[nodiscard]] const std::byte* data() const noexcept { return data_; }
  /// Keeps an object alive as long as the value.
  void keep_alive(nb::object given) { owner_ = std::move(given); }
  void reset() { owner_.reset(); }

 private:
  bool assign_scalar(nb::handle given, const FieldInfo& field, GivenIn in);

  const std::byte* data_ = nullptr;
  alignas(8) std::byte scalar_[8] = {};
  nb::object owner_;
};

/// The values of one call, by field, and the masks of the fields that were given.
struct StepValues {
  explicit StepValues(const FieldTable& table)
      : now(table.fields().size()), next(table.fields().size()) {}

  std::vector<Value> now;
  std::vector<Value> next;
  std::uint64_t given_now = 0;
  std::uint64_t given_next = 0;

  void reset();
};

/// The object if it is an array, else what numpy.asarray makes of it; ValueError if numpy fails.
[[nodiscard]] nb::object array_of(nb::handle given, ArgumentName argument);

/// Whether values of one of numpy's kinds convert to another: as in numpy's casting "same_kind",
/// and integers of either sign, whose range is checked.
[[nodiscard]] bool casts(char from, char to) noexcept;

/// A plain array of the type; ValueError if a number of `array` is out of the type's range.
[[nodiscard]] nb::object converted(nb::handle array, DType dtype, ArgumentName argument);

/// The argument as a plain array [n] of the type: itself if it is one, else a converted copy.
[[nodiscard]] nb::object row_from(nb::handle given, DType dtype, ArgumentName argument,
                                  std::optional<std::size_t> n = std::nullopt);

/// An argument that is an array [n] of the type, or converts to one; TypeError for None.
template <class T>
struct Numbers {
  nb::object owner;
  std::span<const T> values;
};
using Priorities = Numbers<float>;
template <class T>
struct Conversion<Numbers<T>> {
  static std::string hint() {
    return std::same_as<T, float> ? "ArrayLike"
                                  : std::string("NDArray[np.") + name_of(kDType<T>) + "]";
  }
  static Numbers<T> from(nb::handle given, ArgumentName argument) {
    if (given.is_none()) {
      fail<WrongKind>(argument, ": expected ", name_of(kDType<T>), " of shape (n,); given None");
    }
    nb::object owner = row_from(given, kDType<T>, argument);
    const Array read(owner);
    return {std::move(owner), {reinterpret_cast<const T*>(read.data()), read.size()}};
  }
};
/// Item keys, int64 [n] as in Batch.item_keys; TypeError for anything else.
template <>
struct Conversion<Numbers<ItemKey>> {
  static std::string hint() { return "ArrayLike"; }
  static Numbers<ItemKey> from(nb::handle given, ArgumentName argument);
};
using Keys = Numbers<ItemKey>;
/// A copy, because other threads may write to the array while the call runs without the GIL.
[[nodiscard]] inline std::vector<ItemKey> copy_of(const Keys& keys) {
  return {keys.values.begin(), keys.values.end()};
}

/// The `end` of one step: an End or an integer; TypeError for a bool, which does not say which end.
template <>
struct Conversion<End> {
  static std::string hint() { return "_End"; }
  static std::string to_text(End value) { return std::to_string(static_cast<int>(value)); }
  static End from(nb::handle given, ArgumentName argument);
};
/// Reads the `end` of each row of a call, an array of integers, into `ends`.
void ends_from(nb::handle given, const char* call, std::size_t rows, std::vector<End>& ends);

/// The fields that a call takes, as masks.
struct ExpectedFields {
  std::uint64_t now = 0;                           ///< Required under their names.
  std::uint64_t optional = 0;                      ///< Allowed under their names.
  std::uint64_t next = 0;                          ///< Required under "next_" and their names.
  std::optional<std::size_t> rows = std::nullopt;  ///< Rows of each array; empty: single values.
  /// How many rows an observation has under its own name, if not `rows`.
  std::optional<std::size_t> observation_rows = std::nullopt;
  /// Leaves the checks of values to the caller (`check_rows`), because some rows may not be stored.
  bool unchecked = false;
};

/// The number of rows in a call's arrays, by its first field; empty if the call has no field.
[[nodiscard]] std::optional<std::size_t> count_rows(const Fields& fields, const FieldTable& table);
/// The number of steps in the arrays of an episode, whose observations have one row more.
[[nodiscard]] std::optional<std::size_t> count_steps(const Fields& fields, const FieldTable& table);

/// Refuses an observation that has as many rows as the columns, because it lacks the final one.
void check_final(const Fields& fields, const FieldTable& table);

/// Reads every field of the call. ValueError for unknown and missing fields, which lists the
/// fields. Other errors are as in `Value::assign`, and unless `unchecked` as in Value's checks.
void read_fields(const Fields& fields, const FieldTable& table, const ExpectedFields& expected,
                 StepValues& values);

/// Checks the values in `rows` rows, from row `first` on, of arrays that were read `unchecked`;
/// with `next_alone` only those of next observations.
void check_rows(const char* call, const FieldTable& table, const StepValues& values,
                std::size_t first, std::size_t rows, bool next_alone = false);

/// ValueError if a recurrent state is missing where an item may begin, naming the environment.
void check_states(const StepValues& values, const FieldTable& table, const Window& window,
                  const char* call, std::uint64_t position,
                  std::optional<std::size_t> environment = std::nullopt);

/// The priorities of a call, or none. ValueError for an empty array if the call decides items,
/// because the core would take it for no priorities.
[[nodiscard]] std::span<const float> priorities_or_none(const std::optional<Priorities>& priorities,
                                                        std::size_t items, const char* call);

/// Releases the values of a call, however the call ends.
class ValuesReset {
 public:
  explicit ValuesReset(StepValues& values) noexcept : values_(values) {}
  ~ValuesReset() { values_.reset(); }
  ValuesReset(const ValuesReset&) = delete;
  ValuesReset& operator=(const ValuesReset&) = delete;

 private:
  StepValues& values_;
};

/// A hash of a call's values and ends, which tells the same call, made again, from another one.
[[nodiscard]] std::size_t hash_of(std::span<const AnyValue> values, std::span<const End> ends);

/// Copies the given values of a single step to a writer's current step.
void write_now(Writer& writer, const FieldTable& table, const StepValues& values);
/// Copies the given next observations of a single step to a writer's next step.
void write_next(Writer& writer, const FieldTable& table, const StepValues& values);

void init_scalars();

}  // namespace reprise::python
