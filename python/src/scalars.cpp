#include "scalars.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

namespace reprise::python {
namespace {

struct ScalarType {
  PyTypeObject* type = nullptr;
  char kind = 0;
};

constexpr std::size_t kScalarTypes = 12;

/// numpy's types live as long as the interpreter.
std::array<ScalarType, kScalarTypes>& scalar_types() noexcept {
  static std::array<ScalarType, kScalarTypes> types;
  return types;
}

template <class T>
bool store(T value, std::byte* to) noexcept {
  std::memcpy(to, &value, sizeof(value));
  return true;
}

template <class T>
bool store_in_range(long long value, std::byte* to) noexcept {
  if (value < static_cast<long long>(std::numeric_limits<T>::min()) ||
      value > static_cast<long long>(std::numeric_limits<T>::max())) {
    return false;
  }
  return store(static_cast<T>(value), to);
}

/// A number as a Python int; True and False become 1 and 0.
py::object as_index(PyObject* number) {
  if (PyLong_Check(number)) {
    return py::reinterpret_borrow<py::object>(number);
  }
  PyObject* const index =
      scalar_kind(number) == 'b' ? PyNumber_Long(number) : PyNumber_Index(number);
  if (index == nullptr) {
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(index);
}

bool write_integer(PyObject* number, DType dtype, std::byte* to) {
  const py::object index = as_index(number);
  if (dtype == DType::U64) {
    const unsigned long long value = PyLong_AsUnsignedLongLong(index.ptr());
    if (value == static_cast<unsigned long long>(-1) && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      return false;
    }
    return store(static_cast<std::uint64_t>(value), to);
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0) {
    return false;
  }
  switch (dtype) {
    case DType::U8:
      return store_in_range<std::uint8_t>(value, to);
    case DType::I8:
      return store_in_range<std::int8_t>(value, to);
    case DType::U16:
      return store_in_range<std::uint16_t>(value, to);
    case DType::I16:
      return store_in_range<std::int16_t>(value, to);
    case DType::U32:
      return store_in_range<std::uint32_t>(value, to);
    case DType::I32:
      return store_in_range<std::int32_t>(value, to);
    default:
      return store_in_range<std::int64_t>(value, to);
  }
}

/// Whether a number becomes infinite as a float32.
bool overflows(double number) noexcept {
  return std::isinf(static_cast<float>(number)) && !std::isinf(number);
}

[[noreturn]] void refuse_range(const std::string& what, const std::string& number,
                               const py::dtype& dtype) {
  throw std::invalid_argument(what + ": " + number + " is out of the range of " +
                              py::str(dtype.attr("name")).cast<std::string>());
}

/// ValueError if a finite element of an array of numbers is infinite as a float32.
void check_overflow(const py::array& array, const py::dtype& dtype, const std::string& what) {
  const auto wide_type = py::dtype::of<double>();
  const py::array wide = array_from(array.ptr(), &wide_type);
  if (!wide) {
    throw py::error_already_set();
  }
  const std::span<const double> all(static_cast<const double*>(wide.data()),
                                    static_cast<std::size_t>(wide.size()));
  const auto wrong = std::find_if(all.begin(), all.end(), overflows);
  if (wrong != all.end()) {
    refuse_range(what, py::str(py::float_(*wrong)).cast<std::string>(), dtype);
  }
}

/// ValueError if an element of an array of integers does not fit the type. `Wide` holds them all.
template <class Wide>
void check_range(const py::array& array, const py::dtype& dtype, const std::string& what) {
  const auto wide_type = py::dtype::of<Wide>();
  const py::array wide = array_from(array.ptr(), &wide_type);
  if (!wide) {
    throw py::error_already_set();
  }
  const bool has_sign = dtype.kind() == 'i';
  const auto bits = static_cast<unsigned>(dtype.itemsize()) * 8 - (has_sign ? 1 : 0);
  const auto most = std::numeric_limits<std::uint64_t>::max() >> (64U - bits);
  const std::int64_t least = has_sign ? -static_cast<std::int64_t>(most) - 1 : 0;
  const std::span<const Wide> all(static_cast<const Wide*>(wide.data()),
                                  static_cast<std::size_t>(wide.size()));
  const auto wrong = std::find_if(all.begin(), all.end(), [&](Wide value) {
    return std::cmp_less(value, least) || std::cmp_greater(value, most);
  });
  if (wrong != all.end()) {
    refuse_range(what, std::to_string(*wrong), dtype);
  }
}

}  // namespace

void init_scalars() {
  constexpr std::array<const char*, kScalarTypes> kNames{
      "float32", "float64", "int64",  "int32", "int16", "int8",
      "uint64",  "uint32",  "uint16", "uint8", "bool_", "longlong"};
  const py::module_ numpy = py::module_::import("numpy");
  for (std::size_t i = 0; i < kScalarTypes; ++i) {
    const py::object type = numpy.attr(kNames[i]);
    scalar_types()[i] = {reinterpret_cast<PyTypeObject*>(type.ptr()),
                         numpy.attr("dtype")(type).attr("kind").cast<std::string>().front()};
  }
}

char scalar_kind(PyObject* object) noexcept {
  if (PyFloat_CheckExact(object)) {
    return 'f';
  }
  if (PyBool_Check(object)) {
    return 'b';
  }
  if (PyLong_Check(object)) {
    return 'i';
  }
  for (const ScalarType& known : scalar_types()) {
    if (Py_TYPE(object) == known.type) {
      return known.kind;
    }
  }
  return 0;
}

bool write_scalar(PyObject* number, DType dtype, std::byte* to) {
  if (dtype == DType::F32 || dtype == DType::F64) {
    const double value = PyFloat_AsDouble(number);
    if (value == -1.0 && PyErr_Occurred() != nullptr) {
      if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) {
        throw py::error_already_set();
      }
      PyErr_Clear();
      return false;
    }
    if (dtype == DType::F64) {
      return store(value, to);
    }
    return !overflows(value) && store(static_cast<float>(value), to);
  }
  if (dtype == DType::Bool) {
    return store(static_cast<std::uint8_t>(PyObject_IsTrue(number) == 1 ? 1 : 0), to);
  }
  return write_integer(number, dtype, to);
}

py::array array_from(PyObject* given, const py::dtype* dtype) {
  using Numpy = py::detail::npy_api;
  const int flags = dtype == nullptr
                        ? Numpy::NPY_ARRAY_ENSUREARRAY_
                        : Numpy::NPY_ARRAY_ENSUREARRAY_ | Numpy::NPY_ARRAY_FORCECAST_ |
                              Numpy::NPY_ARRAY_C_CONTIGUOUS_ | Numpy::NPY_ARRAY_ALIGNED_;
  PyObject* const type = dtype == nullptr ? nullptr : dtype->inc_ref().ptr();  // Stolen.
  return py::reinterpret_steal<py::array>(
      Numpy::get().PyArray_FromAny_(given, type, 0, 0, flags, nullptr));
}

py::array converted(const py::array& array, const py::dtype& dtype, const std::string& what) {
  const char from = array.dtype().kind();
  const char to = dtype.kind();
  if ((from == 'i' || from == 'u') && (to == 'i' || to == 'u')) {
    if (from == 'i') {
      check_range<std::int64_t>(array, dtype, what);
    } else {
      check_range<std::uint64_t>(array, dtype, what);
    }
  } else if (from == 'f' && to == 'f' && dtype.itemsize() == 4 && array.dtype().itemsize() > 4) {
    check_overflow(array, dtype, what);
  }
  py::array made = array_from(array.ptr(), &dtype);
  if (!made) {
    throw py::error_already_set();
  }
  return made;
}

}  // namespace reprise::python
