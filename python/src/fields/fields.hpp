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

/// Fields by their names in Python, and Python values as the bytes of rows. All of it needs the
/// GIL.
namespace reprise::python {

/// One field as Python sees it.
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): every member is given when it is made.
struct FieldInfo {
  FieldSpec spec;
  AnyField field;
  char kind;            ///< numpy's: 'f', 'i', 'u' or 'b'.
  PyObject* name;       ///< Interned, as the next; never given back.
  PyObject* next_name;  ///< "next_" and the name.
  bool finite;          ///< Its values have to be finite: `Schema::require_finite`.

  [[nodiscard]] const RoleTraits& traits() const noexcept { return spec.traits(); }
  [[nodiscard]] std::uint64_t bit() const noexcept { return std::uint64_t{1} << field.index(); }
};

/// The field that a keyword or a batch's key names.
struct Named {
  const FieldInfo* field = nullptr;  ///< Null: no field.
  bool next = false;
};

/// The fields of a schema by their Python names. Immutable; needs the GIL.
class FieldTable {
 public:
  /// ValueError for names that Python's keywords make ambiguous.
  explicit FieldTable(const Schema& schema);

  [[nodiscard]] const std::vector<FieldInfo>& fields() const noexcept { return fields_; }

  /// By "x" or, of an observation, "next_x".
  [[nodiscard]] Named find(PyObject* name) const noexcept;
  /// That of a call's keyword; none if that is a parameter.
  [[nodiscard]] Named named(const Fields& fields, std::size_t i) const noexcept {
    PyObject* const name = fields.name(i);
    return name == nullptr ? Named() : find(name);
  }

  [[nodiscard]] std::uint64_t observations() const noexcept { return observations_; }
  /// Fields of a step that are no observations, without recurrent states.
  [[nodiscard]] std::uint64_t columns() const noexcept { return columns_; }
  [[nodiscard]] std::uint64_t recurrent_states() const noexcept { return recurrent_states_; }
  /// Bytes of one step, both observations and recurrent states included.
  [[nodiscard]] std::size_t copied_bytes() const noexcept { return copied_bytes_; }

  /// "state" or, with the prefix, "next_state" for each field of the mask.
  [[nodiscard]] std::string names(std::uint64_t mask, std::string_view prefix = {}) const;

 private:
  struct Entry {
    PyObject* name = nullptr;
    Named named;
  };

  std::vector<FieldInfo> fields_;
  std::vector<Entry> entries_;
  std::uint64_t observations_ = 0;
  std::uint64_t columns_ = 0;
  std::uint64_t recurrent_states_ = 0;
  std::size_t copied_bytes_ = 0;
};

/// ValueError unless a schema with these fields may get one of this name and role: see FieldTable.
void check_name(const Schema& schema, std::string_view name, Role role);

/// The bytes of one field's value, for as long as this and the Python object that was taken live.
class Value {
 public:
  /// Takes a value of the field's shape, after a dimension of `rows` if there are any, converting
  /// it where need be. A plain array of the right type is referred to, not copied.
  ///
  /// TypeError for a type that does not convert, ValueError for a wrong shape, an integer out of
  /// range or a discount outside 0 to 1; either names the field (with `prefix`), what is expected
  /// and what was given.
  void take(nb::handle given, const FieldInfo& field, std::string_view prefix,
            std::optional<std::size_t> rows);

  /// ValueError for a value of these rows that is not finite where it has to be, naming field (with
  /// `prefix`), row and value: before any row is written, because the commit of a later one would
  /// refuse it when earlier ones are in.
  void check_finite(const FieldInfo& field, std::string_view prefix, std::size_t first,
                    std::size_t rows) const;

  [[nodiscard]] const std::byte* data() const noexcept { return data_; }
  /// Keeps an object alive that nobody else may hold.
  void own(nb::object given) { owner_ = std::move(given); }
  void reset() { owner_.reset(); }

 private:
  bool take_scalar(nb::handle given, const FieldInfo& field, std::string_view prefix);

  const std::byte* data_ = nullptr;
  alignas(8) std::byte scalar_[8] = {};
  nb::object owner_;
};

/// The values of one call by field, and which were given.
struct StepValues {
  explicit StepValues(const FieldTable& table)
      : now(table.fields().size()), next(table.fields().size()) {}

  std::vector<Value> now;
  std::vector<Value> next;
  std::uint64_t given_now = 0;
  std::uint64_t given_next = 0;

  void reset();
};

/// An array as it is, anything else as numpy.asarray makes one of it; ValueError if it makes none.
[[nodiscard]] nb::object array_of(nb::handle given, What what);

/// Whether values of one of numpy's kinds convert to those of another: as numpy's casting
/// "same_kind", but integers of either sign, whose range is checked.
[[nodiscard]] bool casts(char from, char to) noexcept;

/// A plain array of the type. ValueError if a number of the given one is out of its range.
[[nodiscard]] nb::object converted(nb::handle array, DType dtype, What what);

/// An array [n] of the type, or what converts to it, read in place.
[[nodiscard]] nb::object row_from(nb::handle given, DType dtype, What what,
                                  std::optional<std::size_t> n = std::nullopt);

/// An argument that is a row of numbers, [n] of the type or what converts to it; None is none.
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
  static Numbers<T> from(nb::handle given, What what) {
    if (given.is_none()) {
      fail<WrongKind>(what, ": expected ", name_of(kDType<T>), " of shape (n,); given None");
    }
    nb::object owner = row_from(given, kDType<T>, what);
    const Array read(owner);
    return {std::move(owner), {reinterpret_cast<const T*>(read.data()), read.size()}};
  }
};
/// Keys as they are in a batch. TypeError for anything else.
template <>
struct Conversion<Numbers<ItemKey>> {
  static std::string hint() { return "ArrayLike"; }
  static Numbers<ItemKey> from(nb::handle given, What what);
};
using Keys = Numbers<ItemKey>;
/// A copy: other threads may write to the array while the call runs without the GIL.
[[nodiscard]] inline std::vector<ItemKey> own(const Keys& keys) {
  return {keys.values.begin(), keys.values.end()};
}

/// `end` of one step: an End or an integer; TypeError for a bool, which does not say which end.
template <>
struct Conversion<End> {
  static std::string hint() { return "_End"; }
  static std::string usual(End value) { return std::to_string(static_cast<int>(value)); }
  static End from(nb::handle given, What what);
};
/// `end` of a call for each of its rows: integers.
void ends_from(nb::handle given, const char* call, std::size_t rows, std::vector<End>& ends);

/// The fields that a call takes. Masks by field.
struct Expected {
  std::uint64_t now = 0;       ///< Required by plain name.
  std::uint64_t optional = 0;  ///< Allowed by plain name.
  std::uint64_t next = 0;      ///< Required as next_ and the name.
  std::optional<std::size_t> rows = std::nullopt;
  /// Rows of observations by plain name.
  std::optional<std::size_t> observation_rows = std::nullopt;
};

/// Takes every field of the call. ValueError for unknown and missing fields, naming those there
/// are; else as `Value::take`.
void read_fields(const Fields& fields, const FieldTable& table, const Expected& expected,
                 StepValues& values);

/// ValueError where a recurrent state is missing at a position of an episode with which an item may
/// begin; it names the environment if it is one of several.
void check_states(const StepValues& values, const FieldTable& table, const Window& window,
                  const char* call, std::uint64_t position,
                  std::optional<std::size_t> environment = std::nullopt);

/// The priorities of a call, if it has any. ValueError for an array of length 0 where `items` are
/// decided: to the core it is as if none were given.
[[nodiscard]] std::span<const float> some_of(const std::optional<Priorities>& priorities,
                                             std::size_t items, const char* call);

/// Gives up what a call took, however it ends.
class TakenValues {
 public:
  explicit TakenValues(StepValues& values) noexcept : values_(values) {}
  ~TakenValues() { values_.reset(); }
  TakenValues(const TakenValues&) = delete;
  TakenValues& operator=(const TakenValues&) = delete;

 private:
  StepValues& values_;
};

/// Copies row `row` of the given fields of a mask to a writer's current or next step.
void write_step(Writer& writer, const FieldTable& table, const StepValues& values, bool next,
                std::uint64_t mask, std::size_t row);

/// Looks numpy's scalar types up, once with the module.
void init_scalars();

}  // namespace reprise::python
