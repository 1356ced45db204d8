#pragma once

#include "errors.hpp"

namespace reprise::python {

/// A name of reprise._vocabulary, kept.
struct Vocabulary {
  nb::object role;
  nb::object field;
  nb::object update_result;
  nb::object save_result;
  nb::object save_progress;
  nb::object append_result;
  nb::object arrays;
  nb::object bytes_of;
  nb::object attachments_of;
  nb::object tensors_of;
  nb::object bfloat16_of;
};

[[nodiscard]] const Vocabulary& vocabulary();

/// Imports it, once with the module.
void init_vocabulary();

/// A named tuple, made as a tuple is: without the Python code of its class.
template <class... Values>
nb::object named_tuple(const nb::object& type, Values... values) {
  static const auto kMake = reinterpret_cast<newfunc>(PyType_GetSlot(&PyTuple_Type, Py_tp_new));
  const nb::tuple arguments = nb::make_tuple(nb::make_tuple(values...));
  return checked(kMake(reinterpret_cast<PyTypeObject*>(type.ptr()), arguments.ptr(), nullptr));
}

}  // namespace reprise::python
