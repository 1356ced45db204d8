#include <reprise/detail/finite.hpp>

#include "fields.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace reprise::python {
namespace {

struct ScalarType {
  PyTypeObject* type = nullptr;
  char kind = 0;
};

/// numpy's scalar types, which live as long as the interpreter.
std::array<ScalarType, 12>& scalar_types() noexcept {
  static std::array<ScalarType, 12> types;
  return types;
}

/// numpy's kind of a Python or numpy number ('f', 'i', 'u', 'b'); 0 for anything else.
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

/// Calls a function with a value of the C++ type for an element type; booleans are bytes.
template <class Call>
auto with_type(DType dtype, const Call& call) {
  switch (dtype) {
    case DType::I8:
      return call(std::int8_t{});
    case DType::U16:
      return call(std::uint16_t{});
    case DType::I16:
      return call(std::int16_t{});
    case DType::U32:
      return call(std::uint32_t{});
    case DType::I32:
      return call(std::int32_t{});
    case DType::U64:
      return call(std::uint64_t{});
    case DType::I64:
      return call(std::int64_t{});
    case DType::F32:
      return call(float{});
    case DType::F64:
      return call(double{});
    default:
      return call(std::uint8_t{});
  }
}

/// Whether a number rounds to infinity: it exceeds the type's largest value by half a unit in the
/// last place or more.
bool overflows(double number, DType dtype) noexcept {
  const double limit = dtype == DType::F32    ? 0x1.ffffffp127
                       : dtype == DType::BF16 ? 0x1.ffp127
                       : dtype == DType::F16  ? 65520.0
                                              : std::numeric_limits<double>::infinity();
  return std::abs(number) >= limit && !std::isinf(number);
}

[[noreturn]] void refuse_range(ArgumentName argument, const std::string& number, DType dtype) {
  fail(argument, ": ", number, " is out of the range of ", name_of(dtype));
}

/// Writes a number that converts to the type; false if it is out of the type's range.
bool write_scalar(PyObject* number, DType dtype, std::byte* to) {
  return with_type(dtype, [&]<class T>(T converted) {
    if constexpr (std::is_floating_point_v<T>) {
      const double value = PyFloat_AsDouble(number);
      if (value == -1.0 && PyErr_Occurred() != nullptr) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) {
          throw nb::python_error();
        }
        PyErr_Clear();
        return false;
      }
      if (overflows(value, dtype)) {
        return false;
      }
      converted = static_cast<T>(value);
    } else if (dtype == DType::Bool) {
      converted = PyObject_IsTrue(number) == 1 ? 1 : 0;
    } else {
      // A bool of numpy has no __index__.
      const nb::object index = PyLong_Check(number)
                                   ? nb::borrow(number)
                                   : checked(scalar_kind(number) == 'b' ? PyNumber_Long(number)
                                                                        : PyNumber_Index(number));
      int overflow = 0;
      const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
      if (overflow > 0 && sizeof(T) == 8 && std::is_unsigned_v<T>) {
        converted = static_cast<T>(PyLong_AsUnsignedLongLong(index.ptr()));
        if (PyErr_Occurred() != nullptr) {
          PyErr_Clear();
          return false;
        }
      } else if (overflow != 0 || !std::in_range<T>(value)) {
        return false;
      } else {
        converted = static_cast<T>(value);
      }
    }
    std::memcpy(to, &converted, sizeof(converted));
    return true;
  });
}

/// ValueError if a number of an array does not fit the type; `Wide` holds all numbers of the array.
template <class Wide>
void check_range(nb::handle array, DType dtype, ArgumentName argument) {
  const nb::object wide = array_from(array, kDType<Wide>);
  if (!wide) {
    throw nb::python_error();
  }
  const Array read(wide);
  const std::span<const Wide> all(reinterpret_cast<const Wide*>(read.data()), read.size());
  const auto fits = [dtype](Wide value) {
    if constexpr (std::is_floating_point_v<Wide>) {
      return !overflows(value, dtype);
    } else {
      return with_type(dtype, [value]<class T>(T /*type*/) {
        if constexpr (std::is_floating_point_v<T>) {
          return true;
        } else {
          return std::in_range<T>(value);
        }
      });
    }
  };
  const auto wrong = std::find_if_not(all.begin(), all.end(), fits);
  if (wrong != all.end()) {
    if constexpr (std::is_floating_point_v<Wide>) {
      refuse_range(argument, str_of(nb::float_(*wrong)), dtype);
    } else {
      refuse_range(argument, std::to_string(*wrong), dtype);
    }
  }
}

std::string quoted(const FieldInfo& field, GivenIn in) {
  return field_text(in.call, std::string(in.prefix) + field.spec.name);
}

bool same_shape(const Array& array, const FieldInfo& field, std::optional<std::size_t> rows) {
  auto given = array.shape();
  if (rows) {
    if (given.empty() || std::cmp_not_equal(given.front(), *rows)) {
      return false;
    }
    given = given.subspan(1);
  }
  return std::equal(given.begin(), given.end(), field.spec.shape.begin(), field.spec.shape.end(),
                    [](auto a, auto b) { return std::cmp_equal(a, b); });
}

std::string expected(const FieldInfo& field, std::optional<std::size_t> rows) {
  std::vector<std::size_t> shape = field.spec.shape;
  if (rows) {
    shape.insert(shape.begin(), *rows);
  }
  return described(name_of(field.spec.dtype), shape);
}

/// A text such as "end: expected uint8 of shape (8,)".
std::string expected_row(DType dtype, ArgumentName argument, std::optional<std::size_t> n) {
  return argument.text() + ": expected " + name_of(dtype) + " of shape (" +
         (n ? std::to_string(*n) : "n") + ",)";
}

/// Whether an object is a bool of Python, or a scalar, array or tensor of bools.
bool holds_bools(nb::handle given) {
  if (PyLong_Check(given.ptr())) {
    return PyBool_Check(given.ptr());
  }
  const nb::object dtype = nb::steal(PyObject_GetAttrString(given.ptr(), "dtype"));
  if (!dtype) {
    nb::python_error error;
    if (!error.matches(PyExc_AttributeError)) {
      throw std::move(error);
    }
    return false;
  }
  return str_of(dtype).ends_with("bool");
}

/// Converts a tensor that numpy failed to convert. Call it while numpy's error is set.
nb::object array_of_tensor(nb::handle given, ArgumentName argument) {
  nb::python_error error;
  if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_TypeError) &&
      !nb::cast<bool>(vocabulary("needs_gradient")(given))) {
    throw std::move(error);
  }
  try {
    nb::object array = vocabulary("bfloat16_of")(given);
    if (!array.is_none()) {
      return array;
    }
  } catch (nb::python_error& refusal) {
    if (!refusal.matches(PyExc_TypeError)) {
      throw;
    }
    fail<WrongKind>(argument, ": ", str_of(refusal.value()));
  }
  fail(argument, ": no array can be made of it: ", str_of(error.value()));
}

}  // namespace

void init_scalars() {
  constexpr std::array<const char*, 12> kNames{"float32", "float64", "int64",  "int32",
                                               "int16",   "int8",    "uint64", "uint32",
                                               "uint16",  "uint8",   "bool_",  "longlong"};
  const nb::module_ numpy = nb::module_::import_("numpy");
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const nb::object type = numpy.attr(kNames[i]);
    scalar_types()[i] = {reinterpret_cast<PyTypeObject*>(type.ptr()),
                         str_of(numpy.attr("dtype")(type).attr("kind")).front()};
  }
}

bool casts(char from, char to) noexcept {
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

nb::object array_of(nb::handle given, ArgumentName argument) {
  if (is_array(given)) {
    return nb::borrow(given);
  }
  if (has_mask(given)) {
    throw WrongKind(argument.text() +
                    ": a masked array, whose mask would be lost; allowed: its filled(value)");
  }
  nb::object array = array_from(given, /*dtype=*/std::nullopt);
  return array ? array : array_of_tensor(given, argument);
}

nb::object converted(nb::handle array, DType dtype, ArgumentName argument) {
  const char from = Array(array).kind();
  const char to = kind_of(dtype);
  // Every float fits float64, and every integer fits all floats but float16.
  const bool may_overflow = from == 'f' ? dtype != DType::F64 : dtype == DType::F16;
  if (to == 'f' && may_overflow) {
    check_range<double>(array, dtype, argument);
  } else if (from == 'i' && to != 'f') {
    check_range<std::int64_t>(array, dtype, argument);
  } else if (from == 'u' && to != 'f') {
    check_range<std::uint64_t>(array, dtype, argument);
  }
  nb::object copy = array_from(array, dtype);
  if (!copy) {
    throw nb::python_error();
  }
  return copy;
}

nb::object row_from(nb::handle given, DType dtype, ArgumentName argument,
                    std::optional<std::size_t> n) {
  nb::object array = array_of(given, argument);
  const Array read(array);
  const bool is_kind = casts(read.kind(), kind_of(dtype));
  if (!is_kind || read.shape().size() != 1 || (n && read.size() != *n)) {
    const std::string message = expected_row(dtype, argument, n) + "; given " + read.described();
    if (is_kind) {
      throw std::invalid_argument(message);
    }
    throw WrongKind(message);
  }
  return read.is(dtype) && read.plain() ? array : converted(array, dtype, argument);
}

void StepValues::reset() {
  for (std::uint64_t mask = given_now; mask != 0; mask &= mask - 1) {
    now[static_cast<std::size_t>(std::countr_zero(mask))].reset();
  }
  for (std::uint64_t mask = given_next; mask != 0; mask &= mask - 1) {
    next[static_cast<std::size_t>(std::countr_zero(mask))].reset();
  }
  given_now = given_next = 0;
}

void Value::check_range(const FieldInfo& field, GivenIn in, std::size_t first,
                        std::size_t rows) const {
  const auto check = [&]<class T>(T most, const char* allowed) {
    for (std::size_t row = first; row < first + rows; ++row) {
      T value{};
      std::memcpy(&value, data_ + row * sizeof(value), sizeof(value));
      if (!(value >= T{0} && value <= most)) {
        fail(quoted(field, in), " is ", value, "; allowed: ", allowed);
      }
    }
  };
  if (field.traits().discounts) {
    check(1.0F, "0 to 1");
  } else if (field.traits().stamped) {
    check(std::numeric_limits<std::int64_t>::max(), "at least 0");
  }
}

void Value::check_finite(const FieldInfo& field, GivenIn in, std::size_t first,
                         std::size_t rows) const {
  if (!field.finite) {
    return;
  }
  const reprise::detail::NotFinite bad = reprise::detail::find_not_finite(
      field.spec.dtype, {data_ + first * field.spec.bytes, rows * field.spec.bytes});
  if (bad.name != nullptr) {
    fail(quoted(field, in), " is ", bad.name, " at element ", bad.element % field.spec.elements,
         " of row ", first + bad.element / field.spec.elements,
         "; allowed: finite (Schema.require_finite)");
  }
}

void Value::assign(nb::handle given, const FieldInfo& field, GivenIn in,
                   std::optional<std::size_t> rows) {
  const auto fits = [&](const Array& array) {
    return array.is(field.spec.dtype) && array.plain() && same_shape(array, field, rows);
  };
  if (is_array(given) && fits(Array(given))) {
    data_ = Array(given).data();
  } else if (rows || !field.spec.shape.empty() || !assign_scalar(given, field, in)) {
    const std::string argument = quoted(field, in);
    const nb::object array = array_of(given, argument);
    const Array read(array);
    const bool is_kind = casts(read.kind(), field.kind);
    if (!is_kind || !same_shape(read, field, rows)) {
      const std::string message =
          argument + ": expected " + expected(field, rows) + "; given " + read.described();
      if (!is_kind) {
        throw WrongKind(message);
      }
      throw std::invalid_argument(message);
    }
    owner_ = fits(read) ? array : converted(array, field.spec.dtype, argument);
    data_ = Array(owner_).data();
  }
}

/// Writes a Python or numpy number; false if the value has to be converted as an array.
bool Value::assign_scalar(nb::handle given, const FieldInfo& field, GivenIn in) {
  const char kind = scalar_kind(given.ptr());
  const DType dtype = field.spec.dtype;
  // numpy converts to the float types that C++ lacks.
  if (kind == 0 || !casts(kind, field.kind) || dtype == DType::F16 || dtype == DType::BF16) {
    return false;
  }
  if (!write_scalar(given.ptr(), dtype, scalar_)) {
    refuse_range(quoted(field, in), str_of(given), dtype);
  }
  data_ = scalar_;
  return true;
}

End Conversion<End>::from(nb::handle given, ArgumentName argument) {
  if (holds_bools(given)) {
    fail<WrongKind>(argument,
                    ": expected an End; given a bool, which does not say whether the episode was "
                    "terminated or truncated: use reprise.ends(terminated, truncated)");
  }
  const nb::object index =
      PyLong_CheckExact(given.ptr()) ? nb::borrow(given) : nb::steal(PyNumber_Index(given.ptr()));
  if (!index) {
    nb::python_error error;
    if (!error.matches(PyExc_TypeError)) {
      throw std::move(error);
    }
    fail<WrongKind>(argument, ": expected an End; given ", python_type_name(given));
  }
  const long value = PyLong_AsLong(index.ptr());
  if (value < 0 || value > 2) {
    PyErr_Clear();
    fail(argument, " is ", str_of(index),
         "; allowed: End.CONTINUE, End.TERMINATED, End.TRUNCATED (0 to 2)");
  }
  return static_cast<End>(value);
}

void ends_from(nb::handle given, const char* call, std::size_t rows, std::vector<End>& ends) {
  if (!given.is_valid()) {
    throw std::invalid_argument(std::string(call) + ": end is missing");
  }
  const ArgumentName argument(call, "end");
  nb::object array = array_of(given, argument);
  if (Array(array).kind() == 'b') {
    fail<WrongKind>(expected_row(DType::U8, argument, rows), "; given ", Array(array).described(),
                    ", which does not say whether episodes were terminated or truncated: use "
                    "reprise.ends(terminated, truncated)");
  }
  if (Array(array).shape().empty()) {
    fail(expected_row(DType::U8, argument, rows),
         ", one for each step, such as reprise.ends(terminated, truncated); "
         "given ",
         Array(array).described());
  }
  array = row_from(array, DType::U8, argument, rows);
  const Array read(array);
  ends.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto value = static_cast<unsigned>(read.data()[row]);
    if (value > 2) {
      fail(argument, "[", row, "] is ", value,
           "; allowed: 0 (continue), 1 (terminated), 2 (truncated)");
    }
    ends[row] = static_cast<End>(value);
  }
}

Keys Conversion<Keys>::from(nb::handle given, ArgumentName argument) {
  nb::object owner = array_of(given, argument);
  const Array array(owner);
  if (array.shape().size() == 1 && array.size() == 0) {
    return {};  // numpy gives an empty list the type float64.
  }
  // Not `Array::is`, which refuses another byte order.
  if (array.kind() != 'i' || array.element_bytes() != sizeof(std::int64_t)) {
    fail<WrongKind>(argument, ": expected int64 of shape (n,), as Batch.item_keys; given ",
                    array.described());
  }
  owner = row_from(owner, DType::I64, argument);
  const Array read(owner);
  // An ItemKey has the same 64 bits.
  return {std::move(owner), {reinterpret_cast<const ItemKey*>(read.data()), read.size()}};
}

}  // namespace reprise::python
