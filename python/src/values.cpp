#include "values.hpp"

#include "scalars.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

namespace reprise::python {
namespace {

using py::detail::array_descriptor_proxy;
using py::detail::array_proxy;
using py::detail::npy_api;

constexpr int kPlain = npy_api::NPY_ARRAY_C_CONTIGUOUS_ | npy_api::NPY_ARRAY_ALIGNED_;

bool is_array(PyObject* object) {
  return npy_api::get().PyArray_Check_(object);
}

bool same_type(PyObject* array, char kind, std::size_t element_size) {
  const py::handle descr(array_proxy(array)->descr);
  const auto dtype = py::reinterpret_borrow<py::dtype>(descr);
  return dtype.kind() == kind && dtype.itemsize() == static_cast<py::ssize_t>(element_size) &&
         array_descriptor_proxy(descr.ptr())->byteorder != '>';
}

bool same_shape(PyObject* array, const FieldInfo& field, std::optional<std::size_t> rows) {
  const auto* const proxy = array_proxy(array);
  const std::size_t lead = rows ? 1 : 0;
  if (static_cast<std::size_t>(proxy->nd) != field.spec.shape.size() + lead ||
      (rows && static_cast<std::size_t>(proxy->dimensions[0]) != *rows)) {
    return false;
  }
  for (std::size_t i = 0; i < field.spec.shape.size(); ++i) {
    if (static_cast<std::size_t>(proxy->dimensions[i + lead]) != field.spec.shape[i]) {
      return false;
    }
  }
  return true;
}

py::tuple expected_shape(const FieldInfo& field, std::optional<std::size_t> rows) {
  py::list shape;
  if (rows) {
    shape.append(*rows);
  }
  for (const std::size_t size : field.spec.shape) {
    shape.append(size);
  }
  return py::tuple(shape);
}

std::string quoted(const FieldInfo& field, std::string_view prefix) {
  return "field '" + std::string(prefix) + field.spec.name + "'";
}

void check_discounts(const std::byte* data, std::size_t count, const std::string& what) {
  for (std::size_t i = 0; i < count; ++i) {
    float value = 0;
    std::memcpy(&value, data + i * sizeof(value), sizeof(value));
    if (!(value >= 0.0F && value <= 1.0F)) {
      throw std::invalid_argument(what + " is " + std::to_string(value) + "; allowed: 0 to 1");
    }
  }
}

}  // namespace

py::array array_of(PyObject* given, const std::string& what) {
  if (is_array(given)) {
    return py::reinterpret_borrow<py::array>(given);
  }
  py::array made = array_from(given, nullptr);
  if (!made) {
    py::error_already_set error;
    if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_TypeError)) {
      throw std::move(error);
    }
    throw py::value_error(
        what + ": no array can be made of it: " + py::str(error.value()).cast<std::string>());
  }
  return made;
}

void Value::check_unchanged(const FieldInfo& field) const {
  if (array_ != nullptr &&
      (reinterpret_cast<const std::byte*>(array_proxy(array_)->data) != data_ ||
       !same_shape(array_, field, rows_))) {
    throw std::invalid_argument(quoted(field, "") +
                                ": its array was resized while the call read its arguments");
  }
}

void Value::check_finite(const FieldInfo& field, std::string_view prefix, std::size_t row) const {
  for (std::size_t i = 0; field.finite && i < field.spec.elements; ++i) {
    const std::byte* const at = data_ + row * field.spec.bytes + i * field.element_size;
    float narrow = 0.0F;
    double value = 0.0;
    if (field.element_size == sizeof(narrow)) {
      std::memcpy(&narrow, at, sizeof(narrow));
      value = double{narrow};
    } else {
      std::memcpy(&value, at, sizeof(value));
    }
    if (!std::isfinite(value)) {
      throw std::invalid_argument(quoted(field, prefix) + " is " + std::to_string(value) +
                                  " at element " + std::to_string(i) + " of row " +
                                  std::to_string(row) +
                                  "; allowed: finite (Schema.require_finite)");
    }
  }
}

void Value::take(PyObject* given, const FieldInfo& field, std::string_view prefix,
                 std::optional<std::size_t> rows) {
  const bool fits = is_array(given) && same_type(given, field.kind, field.element_size) &&
                    (array_proxy(given)->flags & kPlain) == kPlain &&
                    same_shape(given, field, rows);
  if (fits) {
    data_ = reinterpret_cast<const std::byte*>(array_proxy(given)->data);
    array_ = given;
    rows_ = rows;
  } else if (rows || !field.spec.shape.empty() || !take_scalar(given, field, prefix)) {
    const std::string what = quoted(field, prefix);
    const py::array array = array_of(given, what);
    if (!casts(array.dtype().kind(), field.kind) || !same_shape(array.ptr(), field, rows)) {
      const std::string message = what + ": expected " +
                                  describe(field.dtype, expected_shape(field, rows)) + "; given " +
                                  describe(array.dtype(), array.attr("shape"));
      if (!casts(array.dtype().kind(), field.kind)) {
        throw py::type_error(message);
      }
      throw std::invalid_argument(message);
    }
    py::array made = converted(array, field.dtype, what);
    data_ = static_cast<const std::byte*>(made.data());
    // The array is referred to and may change, because an __array__ may return one that other code
    // has too.
    array_ = made.ptr();
    rows_ = rows;
    owner_ = std::move(made);
  }
  if (field.traits().discounts) {
    const std::size_t count = rows.value_or(1);
    if (data_ != scalar_) {
      keep(count * sizeof(float));
    }
    check_discounts(data_, count, quoted(field, prefix));
  }
}

bool Value::take_scalar(PyObject* given, const FieldInfo& field, std::string_view prefix) {
  const char kind = scalar_kind(given);
  if (kind == 0) {
    return false;
  }
  if (!casts(kind, field.kind)) {
    throw py::type_error(quoted(field, prefix) + ": expected " +
                         describe(field.dtype, py::tuple()) + "; given " + Py_TYPE(given)->tp_name);
  }
  if (!write_scalar(given, field.spec.dtype, scalar_)) {
    throw std::invalid_argument(
        quoted(field, prefix) + ": " + py::str(py::handle(given)).cast<std::string>() +
        " is out of the range of " + py::str(field.dtype.attr("name")).cast<std::string>());
  }
  data_ = scalar_;
  return true;
}

End end_from(PyObject* given) {
  if (scalar_kind(given) == 'b' ||
      (is_array(given) && py::reinterpret_borrow<py::array>(given).dtype().kind() == 'b')) {
    throw py::type_error(
        "end: expected an End; given a bool, which does not say whether the episode was terminated "
        "or truncated: use reprise.ends(terminated, truncated)");
  }
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(given));
  if (!index) {
    const py::error_already_set error;
    if (!error.matches(PyExc_TypeError)) {
      throw error;
    }
    throw py::type_error(std::string("end: expected an End; given ") + Py_TYPE(given)->tp_name);
  }
  const long value = PyLong_AsLong(index.ptr());
  if (value < 0 || value > 2) {
    PyErr_Clear();
    throw std::invalid_argument("end is " + py::str(index).cast<std::string>() +
                                "; allowed: End.CONTINUE, End.TERMINATED, End.TRUNCATED (0 to 2)");
  }
  return static_cast<End>(value);
}

void ends_from(PyObject* given, std::size_t environments, std::vector<End>& ends) {
  const std::string expected =
      "end: expected uint8 of shape (" + std::to_string(environments) + ",); given ";
  py::array array = array_of(given, "end");
  const char kind = array.dtype().kind();
  if (kind != 'u' && kind != 'i') {
    throw py::type_error(expected + describe(array.dtype(), array.attr("shape")) +
                         (kind == 'b' ? ", which does not say whether episodes were terminated or "
                                        "truncated: use reprise.ends(terminated, truncated)"
                                      : ""));
  }
  if (array.ndim() != 1 || static_cast<std::size_t>(array.shape(0)) != environments) {
    throw std::invalid_argument(expected + describe(array.dtype(), array.attr("shape")));
  }
  if (!same_type(array.ptr(), 'u', 1) || (array_proxy(array.ptr())->flags & kPlain) != kPlain) {
    array = converted(array, py::dtype("uint8"), "end");
  }
  const auto* const values = static_cast<const std::uint8_t*>(array.data());
  ends.resize(environments);
  for (std::size_t e = 0; e < environments; ++e) {
    if (values[e] > 2) {
      throw std::invalid_argument("end[" + std::to_string(e) + "] is " + std::to_string(values[e]) +
                                  "; allowed: 0 (continue), 1 (terminated), 2 (truncated)");
    }
    ends[e] = static_cast<End>(values[e]);
  }
}

std::span<const float> priorities_from(PyObject* given, py::object& owner) {
  if (given == nullptr || given == Py_None) {
    return {};
  }
  py::array array = array_of(given, "priorities");
  if (!casts(array.dtype().kind(), 'f') || array.ndim() != 1) {
    const std::string message = "priorities: expected float32 of shape (n,); given " +
                                describe(array.dtype(), array.attr("shape"));
    if (array.ndim() != 1 && casts(array.dtype().kind(), 'f')) {
      throw std::invalid_argument(message);
    }
    throw py::type_error(message);
  }
  if (!same_type(array.ptr(), 'f', sizeof(float)) ||
      (array_proxy(array.ptr())->flags & kPlain) != kPlain) {
    array = converted(array, py::dtype("float32"), "priorities");
  }
  const std::span<const float> values(static_cast<const float*>(array.data()),
                                      static_cast<std::size_t>(array.size()));
  owner = std::move(array);
  return values;
}

std::optional<std::span<const float>> optional_priorities_from(PyObject* given, py::object& owner) {
  if (given == nullptr || given == Py_None) {
    return std::nullopt;
  }
  return priorities_from(given, owner);
}

}  // namespace reprise::python
