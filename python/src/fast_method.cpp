#include "fast_method.hpp"

#include <string>

namespace reprise::python {

void check_positional(const Arguments& arguments, py::ssize_t most, const char* call) {
  if (arguments.positional() > most) {
    throw py::type_error(std::string(call) + " takes " + std::to_string(most) +
                         " positional arguments; given " + std::to_string(arguments.positional()) +
                         ": name the others");
  }
}

void refuse_without_init(const py::module_& module) {
  for (const auto& [name, type] : py::dict(module.attr("__dict__"))) {
    auto* const info = PyType_Check(type.ptr())
                           ? py::detail::get_type_info(reinterpret_cast<PyTypeObject*>(type.ptr()))
                           : nullptr;
    if (info != nullptr) {
      // pybind11 calls this if a method is called of an object whose __init__ has not run.
      info->operator_new = [](std::size_t /*bytes*/) -> void* { detail::refuse_without_init(); };
    }
  }
}

namespace detail {

void refuse_without_init() {
  throw py::type_error("__init__ of the object was not called");
}

void add_descriptor(py::handle type, const char* name, PyObject* descriptor) {
  if (descriptor == nullptr) {
    throw py::error_already_set();
  }
  py::setattr(type, name, py::reinterpret_steal<py::object>(descriptor));
}

}  // namespace detail

}  // namespace reprise::python
