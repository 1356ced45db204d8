#pragma once

#include <nanobind/nanobind.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace reprise::python {

namespace nb = nanobind;

/// The buffer or the object is closed: reprise.Closed.
struct Closed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Every weight is 0: reprise.NothingToDraw.
struct NothingToDraw : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A wait ran out: TimeoutError.
struct TimedOut : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An argument of the wrong kind: TypeError.
struct WrongKind : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws an error of texts and numbers, one behind the other.
template <class Error = std::invalid_argument, class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::string text;
  const auto add = [&text]<class Part>(const Part& part) {
    if constexpr (std::is_arithmetic_v<Part>) {
      text += std::to_string(part);
    } else if constexpr (requires { part.text(); }) {
      text += part.text();
    } else {
      text += part;
    }
  };
  (add(parts), ...);
  throw Error(text);
}

/// A message, in which paths may be that are no UTF-8, as os.fsdecode decodes them.
[[nodiscard]] nb::str text_of(std::string_view text);

/// str(object) and repr(object); what is no UTF-8 in them is escaped.
[[nodiscard]] std::string str_of(nb::handle object);
[[nodiscard]] std::string repr_of(nb::handle object);
[[nodiscard]] std::string kind_text(nb::handle object);

/// A new reference that CPython gave, or its current error, thrown.
[[nodiscard]] inline nb::object checked(PyObject* made) {
  if (made == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(made);
}

/// As Python's exception.
[[nodiscard]] nb::object object_of(const CheckpointError& error);

/// Adds the exception types to the module.
void bind_errors(nb::module_& module);

/// Inside a catch block, with the GIL: makes the exception being handled Python's current one. In
/// messages of the core, the C++ call is named as the call of Python, if one is given.
void set_python_error(const char* call) noexcept;

}  // namespace reprise::python
