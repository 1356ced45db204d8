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

/// Python values as the bytes of rows. All of it needs the GIL.
namespace reprise::python {

/// The bytes of one field's value, for as long as the Python object that was taken is alive.
class Value {
 public:
  Value() = default;
  ~Value() = default;
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  /// Takes a value of the field's shape, after a dimension of `rows` if there are any, converting
  /// it where need be. A C-contiguous array of the right type is referred to, not copied, but for
  /// discounts: what was checked of them is what is written.
  ///
  /// TypeError for a type that does not convert, ValueError for a wrong shape, an integer out of
  /// range or a discount outside 0 to 1; either names the field (with `prefix`), what is expected
  /// and what was given.
  void take(PyObject* given, const FieldInfo& field, std::string_view prefix,
            std::optional<std::size_t> rows);

  /// ValueError for a value of row `row` that is not finite where it has to be, naming field (with
  /// `prefix`), row and value. Before any row is written: the commit of a later one would refuse it
  /// when earlier ones are in.
  void check_finite(const FieldInfo& field, std::string_view prefix, std::size_t row) const;

  [[nodiscard]] const std::byte* data() const noexcept { return data_; }

  /// ValueError if the array that is referred to has been resized since.
  void check_unchanged(const FieldInfo& field) const;

  /// Goes on with a copy of so many bytes: what is referred to may change while a call waits.
  void keep(std::size_t bytes) {
    if (data_ != copy_.data()) {
      copy_.assign(data_, data_ + bytes);
      data_ = copy_.data();
    }
    array_ = nullptr;
  }
  /// Keeps an object alive that nobody else may hold until `reset`.
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
  PyObject* array_ = nullptr;  ///< The array that is referred to; borrowed.
  std::optional<std::size_t> rows_;
  alignas(8) std::byte scalar_[8] = {};
  py::object owner_;             ///< Owner of a converted value.
  std::vector<std::byte> copy_;  ///< Copy of a value that is kept, and of discounts.
};

/// The values of one call by field, and which were given.
struct StepValues {
  explicit StepValues(const FieldTable& table)
      : now(table.fields().size()), next(table.fields().size()) {}

  std::vector<Value> now;
  std::vector<Value> next;
  std::uint64_t given_now = 0;
  std::uint64_t given_next = 0;

  /// To be called once no code of the user's runs any more, which converts other arguments and may
  /// resize arrays meanwhile: see Value::check_unchanged.
  void check_unchanged(const FieldTable& table) const {
    for (const FieldInfo& field : table.fields()) {
      now[field.field.index()].check_unchanged(field);
      next[field.field.index()].check_unchanged(field);
    }
  }

  /// Goes on with copies: of `rows` rows, of observations by plain name of `observation_rows`.
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

/// An array as it is, anything else as numpy.asarray makes one of it; ValueError if it makes none.
[[nodiscard]] py::array array_of(PyObject* given, const std::string& what);

/// `end` of one step: an End or an integer; TypeError for a bool, which does not say which end.
[[nodiscard]] End end_from(PyObject* given);
/// `end` of a vector of environments: [E] integers.
void ends_from(PyObject* given, std::size_t environments, std::vector<End>& ends);

/// Priorities, [n] float32 or what converts to it; empty for None. They stay alive with `owner`.
[[nodiscard]] std::span<const float> priorities_from(PyObject* given, py::object& owner);

/// As `priorities_from`, for an append, where an array of length 0 differs from None: nothing.
[[nodiscard]] std::optional<std::span<const float>> optional_priorities_from(PyObject* given,
                                                                             py::object& owner);

}  // namespace reprise::python
