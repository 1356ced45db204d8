#pragma once

#include <reprise/schema.hpp>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::python {

namespace py = pybind11;

/// One field as Python sees it.
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): every member is given when it is made.
struct FieldInfo {
  FieldSpec spec;
  AnyField field;
  py::dtype dtype;
  char kind;  ///< numpy's: 'f', 'i', 'u' or 'b'.
  std::size_t element_size;
  py::str name;       ///< Interned.
  py::str next_name;  ///< "next_" and the name, interned.
  bool finite;        ///< Its values have to be finite: `Schema::require_finite`.

  [[nodiscard]] const RoleTraits& traits() const noexcept { return spec.traits(); }
  [[nodiscard]] std::uint64_t bit() const noexcept { return std::uint64_t{1} << field.index(); }
};

/// The field that a keyword of a call or a name in a batch stands for.
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
  [[nodiscard]] const Schema& schema() const noexcept { return schema_; }

  /// Finds a field by "x", and an observation also by "next_x".
  [[nodiscard]] Named find(PyObject* name) const noexcept;

  [[nodiscard]] std::uint64_t observations() const noexcept { return observations_; }
  /// Fields that are neither observations nor recurrent states.
  [[nodiscard]] std::uint64_t columns() const noexcept { return columns_; }
  [[nodiscard]] std::uint64_t recurrent_states() const noexcept { return recurrent_states_; }
  /// Bytes of one step, with both observations and with recurrent states.
  [[nodiscard]] std::size_t copied_bytes() const noexcept { return copied_bytes_; }

  /// "state" or, with the prefix, "next_state" for each field of the mask.
  [[nodiscard]] std::string names(std::uint64_t mask, std::string_view prefix = {}) const;

 private:
  struct Entry {
    PyObject* name = nullptr;  ///< Borrowed from a FieldInfo.
    Named named;
  };

  Schema schema_;
  std::vector<FieldInfo> fields_;
  std::vector<Entry> entries_;
  std::uint64_t observations_ = 0;
  std::uint64_t columns_ = 0;
  std::uint64_t recurrent_states_ = 0;
  std::size_t copied_bytes_ = 0;
};

/// `numpy_dtype` converts an element type to numpy's dtype, `dtype_from` the reverse. TypeError for
/// a dtype that is not one of the eleven.
[[nodiscard]] py::dtype numpy_dtype(DType dtype);
[[nodiscard]] DType dtype_from(py::handle dtype, std::string_view field);

/// ValueError if a field of this name and role would be ambiguous beside the schema's fields: see
/// FieldTable.
void check_name(const Schema& schema, std::string_view name, Role role);

/// "float32 of shape (4,)", or "float32" for a scalar.
[[nodiscard]] std::string describe(py::handle dtype, py::handle shape);

void bind_schema(py::module_& module);

}  // namespace reprise::python
