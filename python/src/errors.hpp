#pragma once

#include <pybind11/pybind11.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace reprise::python {

namespace py = pybind11;

/// The buffer or the object is closed: reprise.Closed.
class Closed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Every weight is 0: reprise.NothingToDraw.
class NothingToDraw : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A wait ran out: TimeoutError.
class TimedOut : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A Python text of a message. Paths in it need not be UTF-8; they are decoded as os.fsdecode does.
[[nodiscard]] py::str text_of(std::string_view text);

/// Adds the exception types to the module, and the translation of C++ exceptions to them.
void bind_errors(py::module_& module);

/// Inside a catch block, with the GIL: makes the exception being handled Python's current one.
void set_python_error() noexcept;

}  // namespace reprise::python
