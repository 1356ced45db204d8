#include "dispatch.hpp"

#include "vocabulary.hpp"

#include <string>
#include <unordered_map>
#include <utility>

namespace reprise::python {
namespace {

struct BoundFunction {
  py::object function;
  py::object type;
};

/// Functions by the object that CPython passes to their calls as self; pybind11 keeps the overloads
/// in it.
std::unordered_map<PyObject*, BoundFunction>& functions() {
  static auto& made = *new std::unordered_map<PyObject*, BoundFunction>;
  return made;
}

/// pybind11's dispatcher, the same for all functions.
PyCFunctionWithKeywords& dispatcher() noexcept {
  static PyCFunctionWithKeywords found = nullptr;
  return found;
}

/// Throws Python's current error. If it is pybind11's error that no overload takes the arguments,
/// throws one that names them instead; errors of the function itself stay as they are.
[[noreturn]] void name_arguments(const BoundFunction& bound, py::handle arguments,
                                 py::handle keywords) {
  py::error_already_set error;
  const auto text = py::str(error.value()).cast<std::string>();
  const auto name = bound.function.attr("__name__").cast<std::string>();
  if (!text.starts_with(name + "(): incompatible ")) {
    throw std::move(error);
  }
  const py::object refusal = vocabulary().refusal(
      bound.function, bound.type, arguments,
      keywords ? py::reinterpret_borrow<py::object>(keywords) : py::object(py::dict()));
  if (refusal.is_none()) {
    throw std::move(error);
  }
  throw py::type_error(refusal.cast<std::string>());
}

PyObject* call(PyObject* self, PyObject* arguments, PyObject* keywords) {
  PyObject* const made = dispatcher()(self, arguments, keywords);
  if (made == nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
    try {
      name_arguments(functions().at(self), arguments, keywords);
    } catch (py::error_already_set& error) {
      error.restore();
    } catch (const py::builtin_exception& error) {
      error.set_error();
    }
  }
  return made;
}

/// The function behind an entry of a class's __dict__; null if the entry is no function.
PyObject* function_of(py::handle value) {
  if (PyInstanceMethod_Check(value.ptr())) {
    return PyInstanceMethod_GET_FUNCTION(value.ptr());
  }
  return Py_TYPE(value.ptr()) == &PyStaticMethod_Type ? value.attr("__func__").ptr() : nullptr;
}

void rename_calls(py::handle type) {
  for (const auto& [name, value] : py::dict(type.attr("__dict__"))) {
    PyObject* const function = function_of(value);
    if (function == nullptr || !PyCFunction_Check(function)) {
      continue;
    }
    PyMethodDef& method = *reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
    if (method.ml_flags != (METH_VARARGS | METH_KEYWORDS)) {
      continue;
    }
    dispatcher() =
        reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void (*)()>(std::exchange(
            method.ml_meth, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call)))));
    functions()[PyCFunction_GET_SELF(function)] = {py::reinterpret_borrow<py::object>(function),
                                                   py::reinterpret_borrow<py::object>(type)};
  }
}

}  // namespace

void name_wrong_arguments(const py::module_& module) {
  for (const auto& [name, value] : py::dict(module.attr("__dict__"))) {
    if (PyType_Check(value.ptr()) &&
        py::detail::get_type_info(reinterpret_cast<PyTypeObject*>(value.ptr())) != nullptr) {
      rename_calls(value);
    }
  }
}

}  // namespace reprise::python
