#pragma once

#include <reprise/field.hpp>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <string>

/// Single numbers of Python and numpy, without making arrays of them. All of it needs the GIL.
namespace reprise::python {

namespace py = pybind11;

/// Whether values of one of numpy's kinds convert to a field of another: as numpy's casting
/// "same_kind", but integers of either sign, whose range is checked.
[[nodiscard]] constexpr bool casts(char from, char to) noexcept {
  const bool integer = from == 'i' || from == 'u' || from == 'b';
  switch (to) {
    case 'f':
      return from == 'f' || integer;
    case 'b':
      return from == 'b';
    default:
      return integer;
  }
}

/// numpy's kind of a Python or numpy number ('f', 'i', 'u', 'b'); 0 for anything else.
[[nodiscard]] char scalar_kind(PyObject* object) noexcept;

/// Writes a number whose kind casts to the type's. False if it is out of the type's range.
[[nodiscard]] bool write_scalar(PyObject* number, DType dtype, std::byte* to);

/// The object as an array of the type, or of its own if that is null, with numpy's unsafe casting;
/// in C order, aligned, in the machine's byte order if a type is given. Null with Python's error
/// set where none can be made of it.
[[nodiscard]] py::array array_from(PyObject* given, const py::dtype* dtype);

/// A contiguous array of the type. ValueError if an integer of the given one is out of the range of
/// an integer type, or a finite number of that of float32, naming both.
[[nodiscard]] py::array converted(const py::array& array, const py::dtype& dtype,
                                  const std::string& what);

/// Looks numpy's scalar types up, once with the module.
void init_scalars();

}  // namespace reprise::python
