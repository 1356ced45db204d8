#include "numbers.hpp"

#include <bit>
#include <stdexcept>
#include <string>

namespace reprise::python {
namespace {

std::string refusal(py::handle given, std::string_view what, std::string_view allowed) {
  return std::string(what) + " is " + py::repr(given).cast<std::string>() +
         "; allowed: " + std::string(allowed);
}

/// Throws Python's current error. A TypeError is replaced by one that names the argument; any other
/// error comes from the user's code and stays.
[[noreturn]] void refuse_kind(py::handle given, std::string_view what, const char* allowed) {
  const py::error_already_set error;
  if (!error.matches(PyExc_TypeError)) {
    throw error;
  }
  throw py::type_error(refusal(given, what, allowed));
}

}  // namespace

void check_kind(bool is_kind, py::handle given, std::string_view what, std::string_view allowed) {
  if (!is_kind) {
    throw py::type_error(refusal(given, what, allowed));
  }
}

std::uint64_t integer_from(py::handle given, std::string_view what, std::int64_t least,
                           std::uint64_t most) {
  const char* const any = least == 0 ? "an integer of at least 0" : "an integer";
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(given.ptr()));
  if (!index) {
    refuse_kind(given, what, any);
  }
  int overflow = 0;
  const std::int64_t value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow < 0 || (overflow == 0 && value < 0)) {
    if (overflow == 0 && value >= least) {
      return static_cast<std::uint64_t>(value);
    }
    if (least == 0) {
      throw std::invalid_argument(refusal(index, what, any));
    }
  } else {
    const std::uint64_t positive = PyLong_AsUnsignedLongLong(index.ptr());
    if (PyErr_Occurred() == nullptr && positive <= most) {
      return positive;
    }
    PyErr_Clear();
  }
  const int bits = static_cast<int>(std::bit_width(most)) + (least == 0 ? 0 : 1);
  throw std::invalid_argument(
      refusal(index, what, "an integer of " + std::to_string(bits) + " bits"));
}

double real_from(py::handle given, std::string_view what) {
  const double value = PyFloat_AsDouble(given.ptr());
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError) != 0) {
      PyErr_Clear();
      throw std::invalid_argument(refusal(given, what, "a number in the range of a double"));
    }
    refuse_kind(given, what, "a number");
  }
  return value;
}

bool flag_from(py::handle given, std::string_view what) {
  const auto* const methods = Py_TYPE(given.ptr())->tp_as_number;
  if (methods == nullptr || methods->nb_bool == nullptr) {
    throw py::type_error(refusal(given, what, "True or False"));
  }
  const int truth = PyObject_IsTrue(given.ptr());
  if (truth < 0) {
    throw py::error_already_set();
  }
  return truth != 0;
}

}  // namespace reprise::python
