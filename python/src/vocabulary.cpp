#include "vocabulary.hpp"

namespace reprise::python {
namespace {

Vocabulary& imported() {
  static auto& made = *new Vocabulary;
  return made;
}

}  // namespace

const Vocabulary& vocabulary() {
  return imported();
}

void init_vocabulary() {
  const py::module_ types = py::module_::import("reprise._vocabulary");
  imported() = {types.attr("Role"),
                types.attr("Field"),
                types.attr("UpdateResult"),
                types.attr("SaveResult"),
                types.attr("SaveProgress"),
                types.attr("Arrays"),
                py::module_::import("reprise._refusals").attr("refusal"),
                py::module_::import("reprise._options")};
}

py::object named_tuple(const py::object& type, const py::tuple& values) {
  PyObject* const arguments = PyTuple_Pack(1, values.ptr());
  if (arguments == nullptr) {
    throw py::error_already_set();
  }
  PyObject* const made =
      PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject*>(type.ptr()), arguments, nullptr);
  Py_DECREF(arguments);
  if (made == nullptr) {
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(made);
}

}  // namespace reprise::python
