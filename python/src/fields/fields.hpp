#pragma once

#include <reprise/schema.hpp>

#include "binding/numpy.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

void bind_schema(nb::module_& module);

}  // namespace reprise::python
