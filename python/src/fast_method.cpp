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

namespace detail {

void add_descriptor(py::handle type, const char* name, PyObject* descriptor) {
  if (descriptor == nullptr) {
    throw py::error_already_set();
  }
  py::setattr(type, name, py::reinterpret_steal<py::object>(descriptor));
}

}  // namespace detail

}  // namespace reprise::python
