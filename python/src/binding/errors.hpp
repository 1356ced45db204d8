#pragma once

#include <nanobind/nanobind.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace reprise::python {

namespace nb = nanobind;

/// reprise.Closed: the buffer or the object is closed.
struct Closed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// reprise.NothingToDraw: every weight is 0.
struct NothingToDraw : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// TimeoutError: a wait exceeded its timeout.
struct TimedOut : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// TypeError: an argument is of the wrong kind.
struct WrongKind : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws an error whose message is `parts` put together.
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

/// A message as a str. Paths in it that are not UTF-8 are decoded as os.fsdecode does.
[[nodiscard]] nb::str text_of(std::string_view text);

/// str(object) and repr(object); what is not valid UTF-8 in them is escaped.
[[nodiscard]] std::string str_of(nb::handle object);
[[nodiscard]] std::string repr_of(nb::handle object);
[[nodiscard]] std::string python_type_name(nb::handle object);

/// Takes over a new reference from CPython, or throws its current error if it is null.
[[nodiscard]] inline nb::object checked(PyObject* made) {
  if (made == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(made);
}

/// The Python exception for a CheckpointError.
[[nodiscard]] nb::object object_of(const CheckpointError& error);

void bind_errors(nb::module_& module);

/// Makes the exception being handled Python's current one. Call it inside a catch block, with the
/// GIL. Messages name `call` in place of the C++ call.
void set_python_error(const char* call) noexcept;

}  // namespace reprise::python
