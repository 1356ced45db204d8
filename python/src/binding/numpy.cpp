#include "numpy.hpp"

#include <algorithm>
#include <array>

namespace reprise::python {
namespace {

constexpr std::array<const char*, 13> kNames{"uint8",   "int8",    "uint16",  "int16", "uint32",
                                             "int32",   "uint64",  "int64",   "bool",  "float32",
                                             "float64", "float16", "bfloat16"};
/// numpy's type numbers on Linux; bfloat16 gets one when ml_dtypes is imported.
constexpr std::array<int, 13> kNumbers{2, 1, 4, 3, 6, 5, 8, 7, 0, 11, 12, 23, -1};
constexpr int kLongLong = 9;  ///< A second int64; the number after it is a second uint64.

// numpy's flags of arrays and conversions. A plain array is contiguous in C order, and aligned.
constexpr int kEnsureArray = 0x40;
constexpr int kForceCast = 0x10;
constexpr int kPlain = 0x101;
constexpr int kWriteable = 0x400;

/// numpy's types and functions, which `init_numpy` finds.
struct Numpy {
  PyTypeObject* array = nullptr;
  PyTypeObject* boolean = nullptr;
  PyObject* (*dtype_of_number)(int) = nullptr;
  /// Takes over the reference to the dtype.
  PyObject* (*from_any)(PyObject*, PyObject*, int, int, int, PyObject*) = nullptr;
  PyObject* (*new_array)(PyTypeObject*, PyObject*, int, const Py_ssize_t*, const Py_ssize_t*, void*,
                         int, PyObject*) = nullptr;
  /// Takes over the reference to the base.
  int (*set_base)(PyObject*, PyObject*) = nullptr;
  std::array<PyObject*, 13> dtypes{};
  std::array<int, 13> numbers = kNumbers;
};

Numpy& numpy() noexcept {
  static Numpy instance;
  return instance;
}

/// An array over `data`, or over new memory if `data` is null; in C order unless there are strides.
nb::object make_array(DType dtype, std::span<const std::size_t> shape,
                      std::span<const std::size_t> strides, const void* data, int flags) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): only what is written here is read.
  std::array<Py_ssize_t, 64> sizes, byte_strides;
  std::copy(shape.begin(), shape.end(), sizes.begin());
  std::copy(strides.begin(), strides.end(), byte_strides.begin());
  return checked(numpy().new_array(
      numpy().array, dtype_of(dtype).release().ptr(), static_cast<int>(shape.size()), sizes.data(),
      strides.empty() ? nullptr : byte_strides.data(), const_cast<void*>(data), flags, nullptr));
}

bool is_masked(nb::handle object) {
  if (Py_TYPE(object.ptr()) == numpy().array ||
      PyObject_TypeCheck(object.ptr(), numpy().array) == 0) {
    return false;
  }
  const nb::object kind = nb::module_::import_("numpy.ma").attr("MaskedArray");
  return PyObject_IsInstance(object.ptr(), kind.ptr()) == 1;
}

nb::object owned_by(nb::handle owner, nb::object array) {
  if (numpy().set_base(array.ptr(), nb::borrow(owner).release().ptr()) != 0) {
    throw nb::python_error();
  }
  return array;
}

}  // namespace

std::size_t Array::size() const noexcept {
  std::size_t product = 1;
  for (const Py_ssize_t size : shape()) {
    product *= static_cast<std::size_t>(size);
  }
  return product;
}

bool Array::is(DType dtype) const noexcept {
  if (dtype_layout().byte_order == '>') {
    return false;
  }
  const int wanted = numpy().numbers[static_cast<std::size_t>(dtype)];
  const int number = dtype_layout().number;
  return number == wanted || (number == kLongLong && dtype == DType::I64) ||
         (number == kLongLong + 1 && dtype == DType::U64);
}

std::size_t Array::element_bytes() const noexcept {
  constexpr std::size_t kBytes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 8, 8};  // By numpy's type number.
  const int number = dtype_layout().number;
  return number >= 0 && number <= kLongLong + 1 ? kBytes[number] : 0;
}

std::string Array::described() const {
  const std::vector<std::size_t> sizes(shape().begin(), shape().end());
  return python::described(str_of(dtype()), sizes);
}

char Array::kind_of_custom_type() const {
  return str_of(dtype()) == kNames.back() ? 'f' : dtype_layout().kind;
}

bool is_array(nb::handle object) {
  return Py_TYPE(object.ptr()) == numpy().array ||
         (PyObject_TypeCheck(object.ptr(), numpy().array) != 0 && !is_masked(object));
}

bool has_mask(nb::handle object) {
  if (!PyList_Check(object.ptr()) && !PyTuple_Check(object.ptr())) {
    return is_masked(object);
  }
  for (const nb::handle element : nb::object(nb::borrow(object))) {
    if (is_masked(element)) {
      return true;
    }
  }
  return false;
}

bool is_bool(nb::handle object) noexcept {
  return PyBool_Check(object.ptr()) || Py_TYPE(object.ptr()) == numpy().boolean;
}

char kind_of(DType dtype) noexcept {
  return "uiuiuiuibffff"[static_cast<std::size_t>(dtype)];
}

const char* name_of(DType dtype) noexcept {
  return kNames[static_cast<std::size_t>(dtype)];
}

nb::object dtype_of(DType dtype) {
  const auto i = static_cast<std::size_t>(dtype);
  if (numpy().dtypes[i] == nullptr) {
    try {
      const nb::object type = nb::module_::import_("ml_dtypes").attr("bfloat16");
      const nb::object bfloat16 = nb::module_::import_("numpy").attr("dtype")(type);
      numpy().numbers[i] = nb::cast<int>(bfloat16.attr("num"));
      numpy().dtypes[i] = nb::object(bfloat16).release().ptr();
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_ImportError)) {
        throw;
      }
      throw WrongKind(
          "bfloat16 needs the package ml_dtypes, by which numpy has it: pip install ml_dtypes");
    }
  }
  return nb::borrow(numpy().dtypes[i]);
}

std::string dtype_name(nb::handle given) {
  try {
    return str_of(nb::module_::import_("numpy").attr("dtype")(given).attr("name"));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError) &&
        !error.matches(PyExc_SyntaxError)) {
      throw;
    }
    return repr_of(given);
  }
}

DType dtype_from(nb::handle dtype, std::string_view field) {
  // numpy would take None for float64.
  std::string name = dtype.is_none() ? "None" : dtype_name(dtype);
  if (name == "'bfloat16'") {
    name = kNames.back();  // numpy has bfloat16 once ml_dtypes is imported.
  } else if (name.starts_with("torch.")) {
    name.erase(0, std::string_view("torch.").size());
  }
  const auto* const match = std::find(kNames.begin(), kNames.end(), name);
  if (match == kNames.end()) {
    fail<WrongKind>(field, ": dtype is ", name,
                    "; allowed: bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32, "
                    "float64");
  }
  const auto element_type = static_cast<DType>(match - kNames.begin());
  static_cast<void>(dtype_of(element_type));  // TypeError if it needs a package that is missing.
  return element_type;
}

std::string described(const std::string& dtype, std::span<const std::size_t> shape) {
  if (shape.empty()) {
    return dtype + " scalar";
  }
  std::string text = dtype + " of shape (";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

nb::object array_from(nb::handle given, std::optional<DType> dtype) {
  PyObject* const type = dtype ? dtype_of(*dtype).release().ptr() : nullptr;
  const int flags = kEnsureArray | (dtype ? kForceCast | kPlain : 0);
  return nb::steal(numpy().from_any(given.ptr(), type, 0, 0, flags, nullptr));
}

nb::object view_of(DType dtype, std::span<const std::size_t> shape, const void* data,
                   nb::handle owner) {
  return owned_by(owner, make_array(dtype, shape, {}, data, kPlain | kWriteable));
}

nb::object readonly_view_of(DType dtype, std::span<const std::size_t> shape, const void* data,
                            nb::handle owner) {
  return owned_by(owner, make_array(dtype, shape, {}, data, kPlain));
}

nb::object strided_view_of(DType dtype, std::span<const std::size_t> shape,
                           std::span<const std::size_t> strides, const void* data,
                           nb::handle owner) {
  return owned_by(owner, make_array(dtype, shape, strides, data, kWriteable));
}

nb::object empty_array(DType dtype, std::span<const std::size_t> shape) {
  return make_array(dtype, shape, {}, nullptr, 0);
}

void init_numpy() {
  nb::object api;
  for (const char* const name : {"numpy._core._multiarray_umath", "numpy.core._multiarray_umath"}) {
    try {
      api = nb::module_::import_(name).attr("_ARRAY_API");
      break;
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_ImportError) && !error.matches(PyExc_AttributeError)) {
        throw;
      }
    }
  }
  if (!api) {
    throw std::runtime_error("reprise: numpy has no _ARRAY_API");
  }
  auto* const table = static_cast<void**>(PyCapsule_GetPointer(api.ptr(), nullptr));
  if (table == nullptr) {
    throw nb::python_error();
  }
  const auto set = [table](auto& entry, std::size_t at) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(table[at]);
  };
  set(numpy().array, 2);
  set(numpy().boolean, 8);
  set(numpy().dtype_of_number, 45);
  set(numpy().from_any, 69);
  set(numpy().new_array, 94);
  set(numpy().set_base, 282);
  for (std::size_t i = 0; kNumbers[i] >= 0; ++i) {
    numpy().dtypes[i] = checked(numpy().dtype_of_number(kNumbers[i])).release().ptr();
  }
}

}  // namespace reprise::python
