#include "waiting.hpp"

#include <reprise/writer.hpp>

#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

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
  // Nearly the most seconds whose nanoseconds a 64-bit integer can hold.
  constexpr double kMost = 9.0e9;
  if (value >= kMost) {
    return kNoTimeout;
  }
  return std::chrono::nanoseconds(static_cast<std::int64_t>(value * 1e9));
}

std::chrono::nanoseconds Deadline::left() const noexcept {
  return std::max(timeout_ - waited(), std::chrono::nanoseconds(0));
}

SignalHook::SignalHook() : maker_(::getpid()) {}

bool SignalHook::keep_waiting(std::chrono::nanoseconds waited) noexcept {
  if (!waiting_ || failure_) {
    return false;
  }
  if (waited == std::chrono::nanoseconds(0)) {
    return true;
  }
  const PyGILState_STATE state = PyGILState_Ensure();
  try {
    check_signals();
  } catch (...) {
    failure_ = std::current_exception();
  }
  PyGILState_Release(state);
  // If a handler forked, the child must not wait, because locks may be held for ever there.
  return !failure_ && ::getpid() == maker_;
}

void SignalHook::rethrow() {
  if (failure_) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

void InUse::refuse(const char* what) {
  throw std::logic_error(std::string(what) +
                         " is in use by another call: one thread at a time may use it");
}

}  // namespace reprise::python
