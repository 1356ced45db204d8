#pragma once

#include <reprise/window.hpp>

#include "fields.hpp"

#include <pybind11/pybind11.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Converts Python values to the bytes of rows. Everything here needs the GIL.
namespace reprise::python {

/// The bytes of one field's value, for as long as the Python object that was taken is alive.
class Value {
 public:
  Value() = default;
  ~Value() = default;
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  /// Takes a value of the field's shape, with a first dimension of `rows` if that is given, and
  /// converts it if necessary. A C-contiguous array of the right type is referred to and not
  /// copied. Discounts are copied, so that the values written are the ones that were checked.
  ///
  /// TypeError for a type that does not convert, ValueError for a wrong shape, an integer out of
  /// range or a discount outside 0 to 1; either names the field (with `prefix`), what is expected
  /// and what was given.
  void take(PyObject* given, const FieldInfo& field, std::string_view prefix,
            std::optional<std::size_t> rows);

  /// ValueError for a value of row `row` that is not finite although it has to be; it names field
  /// (with `prefix`), row and value. Call it before any row is written, because otherwise the
  /// commit of a later row would refuse it when earlier rows are committed.
  void check_finite(const FieldInfo& field, std::string_view prefix, std::size_t row) const;

  [[nodiscard]] const std::byte* data() const noexcept { return data_; }

  /// ValueError if the array that is referred to was resized since.
  void check_unchanged(const FieldInfo& field) const;

  /// Replaces the reference by a copy of this many bytes, because the array may change while a call
  /// waits.
  void keep(std::size_t bytes) {
    if (data_ != copy_.data()) {
      copy_.assign(data_, data_ + bytes);
      data_ = copy_.data();
    }
    array_ = nullptr;
  }
  /// Keeps an object alive until `reset`, because it may have no other owner.
  void own(const py::object& given) {
    if (!owner_) {
      owner_ = given;
    }
  }
  void reset() {
    owner_ = {};
    data_ = nullptr;
    array_ = nullptr;
  }

 private:
  bool take_scalar(PyObject* given, const FieldInfo& field, std::string_view prefix);

  const std::byte* data_ = nullptr;
  PyObject* array_ = nullptr;  ///< The array referred to; borrowed.
  std::optional<std::size_t> rows_;
  alignas(8) std::byte scalar_[8] = {};
  py::object owner_;             ///< Owner of a converted value.
  std::vector<std::byte> copy_;  ///< Copy of kept values and of discounts.
};

/// The values of one call by field, and masks of the fields that were given.
struct StepValues {
  explicit StepValues(const FieldTable& table)
      : now(table.fields().size()), next(table.fields().size()) {}

  std::vector<Value> now;
  std::vector<Value> next;
  std::uint64_t given_now = 0;
  std::uint64_t given_next = 0;

  /// Call it when no more code of the user runs, because converting other arguments may run code
  /// that resizes arrays: see Value::check_unchanged.
  void check_unchanged(const FieldTable& table) const {
    for (const FieldInfo& field : table.fields()) {
      now[field.field.index()].check_unchanged(field);
      next[field.field.index()].check_unchanged(field);
    }
  }

  /// Replaces references by copies of `rows` rows, or of `observation_rows` rows for observations
  /// by plain name.
  void keep(const FieldTable& table, std::size_t rows, std::size_t observation_rows) {
    for (const FieldInfo& field : table.fields()) {
      const std::size_t i = field.field.index();
      if ((given_now & field.bit()) != 0) {
        now[i].keep(field.spec.bytes * (field.traits().has_next ? observation_rows : rows));
      }
      if ((given_next & field.bit()) != 0) {
        next[i].keep(field.spec.bytes * rows);
      }
    }
  }

  void reset() {
    for (std::size_t i = 0; i < now.size(); ++i) {
      now[i].reset();
      next[i].reset();
    }
    given_now = given_next = 0;
  }
};

/// An array as it is, any other object as numpy.asarray converts it; ValueError if it cannot.
[[nodiscard]] py::array array_of(PyObject* given, const std::string& what);

/// Reads `end` of one step: an End or an integer. TypeError for a bool, because it does not say
/// which end.
[[nodiscard]] End end_from(PyObject* given);
/// Reads `end` of a vector of environments: [E] integers.
void ends_from(PyObject* given, std::size_t environments, std::vector<End>& ends);

/// Reads priorities: [n] float32, or values that convert to it; empty for None. They stay alive
/// with `owner`.
[[nodiscard]] std::span<const float> priorities_from(PyObject* given, py::object& owner);

/// As `priorities_from`, for an append, where None (no value) differs from an array of length 0.
[[nodiscard]] std::optional<std::span<const float>> optional_priorities_from(PyObject* given,
                                                                             py::object& owner);

}  // namespace reprise::python
