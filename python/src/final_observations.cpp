#include "final_observations.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace reprise::python {
namespace {

/// Whether the object is a mapping. Sequences and arrays have items too, but no keys.
bool has_keys(PyObject* given) {
  const auto keys = py::reinterpret_steal<py::object>(PyObject_GetAttrString(given, "keys"));
  if (!keys) {
    const py::error_already_set error;
    if (!error.matches(PyExc_AttributeError)) {
      throw error;
    }
  }
  return static_cast<bool>(keys);
}

void check_final_name(py::handle key, const FieldTable& table, const char* call) {
  const Named named = table.find(key.ptr());
  if (named.field == nullptr || named.next || !named.field->traits().has_next) {
    throw std::invalid_argument(std::string(call) + ": final: unknown field " +
                                py::repr(key).cast<std::string>() +
                                "; fields: " + table.names(table.observations()));
  }
}

/// Converts rows in a list, tuple or array of objects to an array [E, *shape]. Rows of environments
/// that do not end are not read, because simulators have None there.
py::object gathered(const py::object& given, const FieldInfo& field, std::span<const End> ends) {
  const bool one_by_one =
      py::isinstance<py::list>(given) || py::isinstance<py::tuple>(given) ||
      (py::isinstance<py::array>(given) && py::cast<py::array>(given).dtype().kind() == 'O');
  if (!one_by_one || py::len(given) != ends.size()) {
    return given;
  }
  std::vector<py::ssize_t> shape{static_cast<py::ssize_t>(ends.size())};
  shape.insert(shape.end(), field.spec.shape.begin(), field.spec.shape.end());
  py::array rows(field.dtype, shape);
  auto* const to = static_cast<std::byte*>(rows.mutable_data());
  std::fill_n(to, ends.size() * field.spec.bytes, std::byte{0});
  for (std::size_t e = 0; e < ends.size(); ++e) {
    if (ends[e] != End::Continue) {
      const py::object row = given[py::int_(e)];
      Value value;
      value.take(row.ptr(), field, "final.", std::nullopt);
      std::copy_n(value.data(), field.spec.bytes, to + e * field.spec.bytes);
    }
  }
  return rows;
}

}  // namespace

void check_final(PyObject* given, const FieldTable& table, const char* call) {
  if (PyDict_Check(given) == 0 && !has_keys(given)) {
    throw py::type_error(
        std::string(call) + ": final is " + Py_TYPE(given)->tp_name +
        "; allowed: a dict of arrays, the final observations, [E, ...], by name: " +
        table.names(table.observations()));
  }
  if (PyDict_CheckExact(given) != 0) {
    PyObject* key = nullptr;
    for (py::ssize_t place = 0; PyDict_Next(given, &place, &key, nullptr) != 0;) {
      check_final_name(key, table, call);
    }
    return;
  }
  const auto keys = py::reinterpret_steal<py::object>(PyMapping_Keys(given));
  if (!keys) {
    throw py::error_already_set();
  }
  for (const py::handle key : keys) {
    check_final_name(key, table, call);
  }
}

void take_final(PyObject* given, const FieldTable& table, const char* call,
                std::span<const End> ends, StepValues& final) {
  for (const FieldInfo& field : table.fields()) {
    if (!field.traits().has_next) {
      continue;
    }
    PyObject* const name = field.name.ptr();
    const auto found = py::reinterpret_steal<py::object>(PyObject_GetItem(given, name));
    if (!found) {
      const py::error_already_set error;
      if (!error.matches(PyExc_KeyError)) {
        throw error;
      }
      throw py::value_error(std::string(call) + ": final: missing field " + field.spec.name);
    }
    const py::object value = gathered(found, field, ends);
    Value& taken = final.next[field.field.index()];
    taken.take(value.ptr(), field, "final.", ends.size());
    taken.own(value);
    for (std::size_t e = 0; e < ends.size(); ++e) {
      if (ends[e] != End::Continue) {
        taken.check_finite(field, "final.", e);
      }
    }
    final.given_next |= field.bit();
  }
}

}  // namespace reprise::python
