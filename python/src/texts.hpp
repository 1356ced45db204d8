#pragma once

#include "numbers.hpp"

#include <filesystem>
#include <string>

/// Reads the `Checked` arguments that are no numbers. TypeError that names call and argument for an
/// argument of another kind.
namespace reprise::python {

/// A str, as UTF-8.
[[nodiscard]] std::string text_from(py::handle given, std::string_view what);
/// A str, bytes or os.PathLike.
[[nodiscard]] std::filesystem::path path_from(py::handle given, std::string_view what);

template <>
struct Reader<std::string> {
  [[nodiscard]] static std::string read(py::handle given, std::string_view what) {
    return text_from(given, what);
  }
};

template <>
struct Reader<std::filesystem::path> {
  [[nodiscard]] static std::filesystem::path read(py::handle given, std::string_view what) {
    return path_from(given, what);
  }
};

template <>
struct Reader<py::dict> {
  [[nodiscard]] static py::dict read(py::handle given, std::string_view what) {
    check_kind(py::isinstance<py::dict>(given), given, what, "a dict");
    return py::reinterpret_borrow<py::dict>(given);
  }
};

/// Reads one of the module's own classes: a pointer that the argument keeps alive.
template <class T>
struct Reader<const T*> {
  [[nodiscard]] static const T* read(py::handle given, std::string_view what) {
    const auto name = py::type::of<T>().attr("__name__").template cast<std::string>();
    check_kind(py::isinstance<T>(given), given, what, "a " + name);
    return given.cast<const T*>();
  }
};

}  // namespace reprise::python
