#pragma once

#include <reprise/field.hpp>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <string>

/// Reads single numbers of Python and numpy without making arrays of them. Everything here needs
/// the GIL.
namespace reprise::python {

namespace py = pybind11;

/// Whether values of one numpy kind convert to a field of another. The rule is numpy's casting
/// "same_kind", except that signed and unsigned integers convert to each other, because their range
/// is checked.
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

/// The object as an array of the given type, with numpy's unsafe casting; without a type, of its
/// own. With a type, the array is in C order, aligned and in the machine's byte order. Null with
/// Python's error set if no array can be made.
[[nodiscard]] py::array array_from(PyObject* given, const py::dtype* dtype);

/// A contiguous array of the type. ValueError that names value and type if an integer is out of the
/// range of an integer type, or a finite number out of the range of float32.
[[nodiscard]] py::array converted(const py::array& array, const py::dtype& dtype,
                                  const std::string& what);

/// Looks numpy's scalar types up, once with the module.
void init_scalars();

}  // namespace reprise::python
