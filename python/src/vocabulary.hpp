#pragma once

#include <pybind11/pybind11.h>

/// The types of package reprise that are written in Python: enums, results, options.
namespace reprise::python {

namespace py = pybind11;

struct Vocabulary {
  py::object role;
  py::object field;
  py::object update_result;
  py::object save_result;
  py::object save_progress;
  py::object arrays;    ///< A dict of a batch's arrays.
  py::object refusal;   ///< The function that explains wrong arguments of a call.
  py::module_ options;  ///< reprise._options.
};

/// Imported once with the module and kept for as long as the interpreter lives.
[[nodiscard]] const Vocabulary& vocabulary();
void init_vocabulary();

/// Makes a named tuple of the type as a plain tuple is made, without calling its __new__.
[[nodiscard]] py::object named_tuple(const py::object& type, const py::tuple& values);

}  // namespace reprise::python
