#include "waiting.hpp"

#include <reprise/writer.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace reprise::python {

std::chrono::nanoseconds timeout_from(PyObject* seconds, const char* call) {
  if (seconds == nullptr || seconds == Py_None) {
    return kNoTimeout;
  }
  const double value = PyFloat_AsDouble(seconds);
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw py::type_error(std::string(call) + ": timeout is " +
                         std::string(py::repr(py::handle(seconds))) +
                         "; allowed: None or a number of seconds");
  }
  if (!(value >= 0.0)) {
    throw std::invalid_argument(std::string(call) + ": timeout is " +
                                std::string(py::repr(py::handle(seconds))) +
                                " s; allowed: None or at least 0");
  }
  // The largest number of seconds whose nanoseconds a 64-bit integer holds, nearly.
  constexpr double kMost = 9.0e9;
  if (value >= kMost) {
    return kNoTimeout;
  }
  return std::chrono::nanoseconds(static_cast<std::int64_t>(value * 1e9));
}

std::chrono::nanoseconds Deadline::slice() const noexcept {
  return std::clamp(timeout_ - waited(), std::chrono::nanoseconds(0), kSlice);
}

void InUse::refuse(const char* what) {
  throw std::logic_error(std::string(what) +
                         " is in use by another call: one thread at a time may use it");
}

}  // namespace reprise::python
