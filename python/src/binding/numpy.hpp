#pragma once

#include <reprise/schema.hpp>

#include "errors.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// Uses numpy's arrays without numpy's headers, by the layout of their first members and by indices
/// into the table of its C functions. Both are part of numpy's ABI and equal in 1.x and 2.x.
namespace reprise::python {

/// The first members of an array.
struct ArrayLayout {
  PyObject head;
  std::byte* data;
  int dimensions;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  PyObject* base;
  PyObject* dtype;
  int flags;
};

/// The first members of a dtype.
struct DtypeLayout {
  PyObject head;
  PyObject* type;
  char kind;  ///< 'f', 'i', 'u', 'b', 'O', ...
  char letter;
  char byte_order;  ///< '>' if the values are big-endian, unlike this machine.
  char flags;
  int number;
};

/// An array to which the caller holds a reference.
class Array {
 public:
  explicit Array(nb::handle array) noexcept
      : layout_(reinterpret_cast<const ArrayLayout*>(array.ptr())) {}

  [[nodiscard]] std::byte* data() const noexcept { return layout_->data; }
  [[nodiscard]] std::span<const Py_ssize_t> shape() const noexcept {
    return {layout_->shape, static_cast<std::size_t>(layout_->dimensions)};
  }
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] nb::handle dtype() const noexcept { return layout_->dtype; }
  /// numpy's kind, such as 'f'; bfloat16, which numpy does not know, counts as a float.
  [[nodiscard]] char kind() const {
    return dtype_layout().kind == 'V' ? kind_of_custom_type() : dtype_layout().kind;
  }
  /// Whether its elements have this type in the machine's byte order.
  [[nodiscard]] bool is(DType dtype) const noexcept;
  /// Bytes of an element, if elements are bools or integers; 0 for other types.
  [[nodiscard]] std::size_t element_bytes() const noexcept;
  /// Whether the array is contiguous in C order, and aligned.
  [[nodiscard]] bool plain() const noexcept { return (layout_->flags & kPlain) == kPlain; }
  [[nodiscard]] bool writable() const noexcept { return (layout_->flags & kWritable) != 0; }
  [[nodiscard]] std::string described() const;

 private:
  static constexpr int kPlain = 0x101;
  static constexpr int kWritable = 0x400;
  [[nodiscard]] const DtypeLayout& dtype_layout() const noexcept {
    return *reinterpret_cast<const DtypeLayout*>(layout_->dtype);
  }
  [[nodiscard]] char kind_of_custom_type() const;
  const ArrayLayout* layout_;
};

/// Whether an object is an array that is not masked: a mask lies outside of the array's memory.
[[nodiscard]] bool is_array(nb::handle object);
/// Whether an object is a masked array, or a list or tuple that contains one.
[[nodiscard]] bool has_mask(nb::handle object);

/// Whether an object is a bool of Python or of numpy.
[[nodiscard]] bool is_bool(nb::handle object) noexcept;

/// numpy's kind of an element type.
[[nodiscard]] char kind_of(DType dtype) noexcept;
[[nodiscard]] const char* name_of(DType dtype) noexcept;
/// The name of the dtype that numpy makes of an object; its repr if it makes none.
[[nodiscard]] std::string dtype_name(nb::handle given);
/// numpy's dtype for an element type, and the reverse; TypeError, which names `field`, if there is
/// none. The dtype for bfloat16 comes from package ml_dtypes.
[[nodiscard]] nb::object dtype_of(DType dtype);
[[nodiscard]] DType dtype_from(nb::handle dtype, std::string_view field);

/// A text such as "float32 of shape (4,)" or "float32 scalar".
[[nodiscard]] std::string described(const std::string& dtype, std::span<const std::size_t> shape);

/// Converts an object to an array of the type with numpy's unsafe casting, or, without a type, to
/// an array of the object's own. With a type the array is plain. Null with Python's error set if
/// there is no such array.
[[nodiscard]] nb::object array_from(nb::handle given, std::optional<DType> dtype);

/// An array over memory that `owner` keeps alive.
[[nodiscard]] nb::object view_of(DType dtype, std::span<const std::size_t> shape, const void* data,
                                 nb::handle owner);
[[nodiscard]] nb::object readonly_view_of(DType dtype, std::span<const std::size_t> shape,
                                          const void* data, nb::handle owner);
/// As `view_of`; `strides` has the distance in bytes between neighbours in each dimension.
[[nodiscard]] nb::object strided_view_of(DType dtype, std::span<const std::size_t> shape,
                                         std::span<const std::size_t> strides, const void* data,
                                         nb::handle owner);

/// A new array whose values are not initialised.
[[nodiscard]] nb::object empty_array(DType dtype, std::span<const std::size_t> shape);

void init_numpy();

}  // namespace reprise::python
