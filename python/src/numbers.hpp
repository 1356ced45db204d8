#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

/// Reads the numbers that calls and options are given. `what` names call and argument, as
/// "ReplayBuffer: shards", in the TypeError for an argument of another kind and the ValueError for
/// one out of range.
namespace reprise::python {

namespace py = pybind11;

/// The 64 bits of an integer in a range. Every object with __index__ is an integer, so 1e6 is not
/// one.
[[nodiscard]] std::uint64_t integer_from(py::handle given, std::string_view what,
                                         std::int64_t least, std::uint64_t most);
/// Accepts every argument of float() except text.
[[nodiscard]] double real_from(py::handle given, std::string_view what);
/// Accepts every type with __bool__.
[[nodiscard]] bool flag_from(py::handle given, std::string_view what);

template <class T>
[[nodiscard]] T number_from(py::handle given, std::string_view what) {
  if constexpr (std::same_as<T, bool>) {
    return flag_from(given, what);
  } else if constexpr (std::integral<T>) {
    using Limits = std::numeric_limits<T>;
    return static_cast<T>(
        integer_from(given, what, Limits::min(), static_cast<std::uint64_t>(Limits::max())));
  } else {
    return static_cast<T>(real_from(given, what));
  }
}

/// TypeError "`what` is `given`; allowed: `allowed`" unless it is of that kind.
void check_kind(bool is_kind, py::handle given, std::string_view what, std::string_view allowed);

/// Reads arguments of one C++ type. This one reads numbers; texts.hpp has others.
template <class T>
struct Reader {
  [[nodiscard]] static T read(py::handle given, std::string_view what) {
    return number_from<T>(given, what);
  }
};

/// Text as a template argument.
template <std::size_t N>
struct Literal {
  // NOLINTNEXTLINE(google-explicit-constructor): callers pass a string literal.
  constexpr Literal(const char (&given)[N]) { std::copy_n(given, N, text); }
  char text[N] = {};
};

/// A parameter of a function that pybind11 calls. Its Reader reads it, so that an error names the
/// argument and not the whole signature.
template <class T, Literal kWhat>
struct Checked {
  T value{};
  // NOLINTNEXTLINE(google-explicit-constructor): it stands for its value.
  operator T() const noexcept { return value; }
};

}  // namespace reprise::python

template <class T, reprise::python::Literal kWhat>
struct pybind11::detail::type_caster<reprise::python::Checked<T, kWhat>> {
  using Given = reprise::python::Checked<T, kWhat>;
  PYBIND11_TYPE_CASTER(Given, const_name("checked"));

  bool load(handle given, bool /*convert*/) {
    value.value = reprise::python::Reader<T>::read(given, kWhat.text);
    return true;
  }
};
