#pragma once

#include "errors.hpp"

namespace reprise::python {

/// The module reprise._vocabulary, once the own module has imported it.
inline nb::object& vocabulary_module() {
  static auto& made = *new nb::object;
  return made;
}

/// What it has by this name.
[[nodiscard]] inline nb::object vocabulary(const char* name) {
  return vocabulary_module().attr(name);
}

/// A named tuple, made as a tuple is: without the Python code of its class.
template <class... Values>
nb::object named_tuple(const char* name, Values... values) {
  static const auto kMake = reinterpret_cast<newfunc>(PyType_GetSlot(&PyTuple_Type, Py_tp_new));
  const nb::object type = vocabulary(name);
  const nb::tuple arguments = nb::make_tuple(nb::make_tuple(values...));
  return checked(kMake(reinterpret_cast<PyTypeObject*>(type.ptr()), arguments.ptr(), nullptr));
}

}  // namespace reprise::python
