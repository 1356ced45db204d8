#include "texts.hpp"

#include <pybind11/stl/filesystem.h>

namespace reprise::python {

std::string text_from(py::handle given, std::string_view what) {
  const char* const text = PyUnicode_Check(given.ptr()) ? PyUnicode_AsUTF8(given.ptr()) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
  }
  check_kind(text != nullptr, given, what, "a str that UTF-8 can encode");
  return text;
}

std::filesystem::path path_from(py::handle given, std::string_view what) {
  py::detail::make_caster<std::filesystem::path> path;
  check_kind(path.load(given, true), given, what, "a path");
  return py::detail::cast_op<std::filesystem::path>(path);
}

}  // namespace reprise::python
