#include "type.hpp"

namespace reprise::python {

nb::dict& signatures() {
  static auto& made = *new nb::dict;
  return made;
}

void refuse_without_init() {
  throw WrongKind("__init__ of the object was not called");
}

namespace detail {

Row::Row(PyObject* positional, PyObject* keywords) : count(PyTuple_Size(positional)) {
  for (Py_ssize_t i = 0; i < count; ++i) {
    values.push_back(PyTuple_GetItem(positional, i));
  }
  if (keywords == nullptr) {
    return;
  }
  nb::list all;
  PyObject* name = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(keywords, &at, &name, &value) != 0;) {
    all.append(nb::handle(name));
    values.push_back(value);
  }
  names = checked(PyList_AsTuple(all.ptr()));
}

}  // namespace detail

}  // namespace reprise::python
