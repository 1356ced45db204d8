#pragma once

#include "errors.hpp"

#include <pybind11/pybind11.h>

#include <cstddef>
#include <typeinfo>

/// Methods that CPython calls by vector call, without a dict of keywords and without pybind11's
/// dispatch, which costs about a microsecond with keywords. The first lines of a doc string are the
/// signature that inspect and help show: "name($self, /, *, x=None)\n--\n\n".
namespace reprise::python {

namespace py = pybind11;

/// The arguments of one call, borrowed.
class Arguments {
 public:
  Arguments(PyObject* const* values, py::ssize_t positional, PyObject* names) noexcept
      : values_(values), positional_(positional), names_(names) {}

  [[nodiscard]] py::ssize_t positional() const noexcept { return positional_; }
  [[nodiscard]] PyObject* operator[](py::ssize_t i) const noexcept { return values_[i]; }
  [[nodiscard]] py::ssize_t named() const noexcept {
    return names_ == nullptr ? 0 : PyTuple_GET_SIZE(names_);
  }
  [[nodiscard]] PyObject* name(py::ssize_t i) const noexcept { return PyTuple_GET_ITEM(names_, i); }
  [[nodiscard]] PyObject* value(py::ssize_t i) const noexcept { return values_[positional_ + i]; }

 private:
  PyObject* const* values_;
  py::ssize_t positional_;
  PyObject* names_;
};

/// Makes methods raise TypeError if __init__ of the object was not called; pybind11 would give them
/// uninitialised memory.
void refuse_without_init(const py::module_& module);

/// TypeError if there are more positional arguments than the call takes.
void check_positional(const Arguments& arguments, py::ssize_t most, const char* call);

/// The index of a keyword in a list of interned names; -1 if it is not there.
template <std::size_t N>
[[nodiscard]] int keyword_index(PyObject* name, PyObject* const (&names)[N]) noexcept {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) {
      return static_cast<int>(i);
    }
  }
  for (std::size_t i = 0; i < N; ++i) {
    if (PyUnicode_Compare(names[i], name) == 0) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

namespace detail {

[[noreturn]] void refuse_without_init();

/// The C++ object of an instance whose type CPython's descriptor has checked.
template <class Self>
Self& self_of(PyObject* self) {
  auto* const instance = reinterpret_cast<py::detail::instance*>(self);
  // An instance of several C++ bases has an object for each.
  auto* const object = instance->simple_layout
                           ? instance->get_value_and_holder().template value_ptr<Self>()
                           : instance->get_value_and_holder(py::detail::get_type_info(typeid(Self)))
                                 .template value_ptr<Self>();
  if (object == nullptr) {
    refuse_without_init();
  }
  return *object;
}

template <class Self, auto kFunction>
PyObject* fast_call(PyObject* self, PyObject* const* values, py::ssize_t positional,
                    PyObject* names) noexcept {
  try {
    return kFunction(self_of<Self>(self), Arguments(values, positional, names)).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

template <class Self, auto kFunction>
PyObject* fast_get(PyObject* self, void* /*closure*/) noexcept {
  try {
    return kFunction(self_of<Self>(self)).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

template <class Self, auto kFunction>
PyObject* fast_item(PyObject* self, PyObject* key) noexcept {
  try {
    return kFunction(self_of<Self>(self), key).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

void add_descriptor(py::handle type, const char* name, PyObject* descriptor);

}  // namespace detail

/// kFunction: py::object(Self&, const Arguments&).
template <auto kFunction, class Self, class... Options>
void add_fast_method(py::class_<Self, Options...>& type, const char* name, const char* doc) {
  static PyMethodDef method{name,
                            reinterpret_cast<PyCFunction>(
                                reinterpret_cast<void (*)()>(&detail::fast_call<Self, kFunction>)),
                            METH_FASTCALL | METH_KEYWORDS, doc};
  detail::add_descriptor(type, name,
                         PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &method));
}

/// A method of one argument. kFunction: py::object(Self&, PyObject*).
template <auto kFunction, class Self, class... Options>
void add_fast_item(py::class_<Self, Options...>& type, const char* name, const char* doc) {
  static PyMethodDef method{name, &detail::fast_item<Self, kFunction>, METH_O, doc};
  detail::add_descriptor(type, name,
                         PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &method));
}

/// A property that is read only. kFunction: py::object(Self&).
template <auto kFunction, class Self, class... Options>
void add_fast_property(py::class_<Self, Options...>& type, const char* name, const char* doc) {
  static PyGetSetDef property{name, &detail::fast_get<Self, kFunction>, nullptr, doc, nullptr};
  detail::add_descriptor(type, name,
                         PyDescr_NewGetSet(reinterpret_cast<PyTypeObject*>(type.ptr()), &property));
}

}  // namespace reprise::python
