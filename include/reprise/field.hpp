#pragma once

#include <reprise/role.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace reprise {

/// Element type of a field. A new one goes to the end: checkpoints have the numbers.
enum class DType : std::uint8_t { U8, I8, U16, I16, U32, I32, U64, I64, Bool, F32, F64, F16, BF16 };

/// An IEEE 754 binary16 by its bits, to be converted by the code that computes with it:
/// std::bit_cast makes it a `_Float16`, `__half` or `at::Half`.
struct Float16 {
  std::uint16_t bits = 0;  ///< Sign, exponent and fraction, from the highest bit on.
  bool operator==(const Float16&) const = default;
};

/// A bfloat16, the upper half of a float, by its bits.
struct BFloat16 {
  std::uint16_t bits = 0;  ///< Sign, exponent and fraction, from the highest bit on.
  bool operator==(const BFloat16&) const = default;
};

namespace detail {
template <class T>
inline constexpr int kDTypeOf = -1;
template <>
inline constexpr int kDTypeOf<std::uint8_t> = static_cast<int>(DType::U8);
template <>
inline constexpr int kDTypeOf<std::int8_t> = static_cast<int>(DType::I8);
template <>
inline constexpr int kDTypeOf<std::uint16_t> = static_cast<int>(DType::U16);
template <>
inline constexpr int kDTypeOf<std::int16_t> = static_cast<int>(DType::I16);
template <>
inline constexpr int kDTypeOf<std::uint32_t> = static_cast<int>(DType::U32);
template <>
inline constexpr int kDTypeOf<std::int32_t> = static_cast<int>(DType::I32);
template <>
inline constexpr int kDTypeOf<std::uint64_t> = static_cast<int>(DType::U64);
template <>
inline constexpr int kDTypeOf<std::int64_t> = static_cast<int>(DType::I64);
template <>
inline constexpr int kDTypeOf<bool> = static_cast<int>(DType::Bool);
template <>
inline constexpr int kDTypeOf<float> = static_cast<int>(DType::F32);
template <>
inline constexpr int kDTypeOf<double> = static_cast<int>(DType::F64);
template <>
inline constexpr int kDTypeOf<Float16> = static_cast<int>(DType::F16);
template <>
inline constexpr int kDTypeOf<BFloat16> = static_cast<int>(DType::BF16);
static_assert(sizeof(bool) == 1, "a bool field takes one byte per element");
static_assert(sizeof(Float16) == 2 && sizeof(BFloat16) == 2, "no padding");
}  // namespace detail

/// The thirteen element types of a field.
template <class T>
concept Element = detail::kDTypeOf<T>
>= 0;

/// The element type as a value.
template <Element T>
inline constexpr DType kDType = static_cast<DType>(detail::kDTypeOf<T>);

/// Bytes of one element.
[[nodiscard]] constexpr std::size_t element_bytes(DType dtype) noexcept {
  constexpr std::uint8_t kBytes[] = {1, 1, 2, 2, 4, 4, 8, 8, 1, 4, 8, 2, 2};
  return kBytes[static_cast<std::size_t>(dtype)];
}

/// Typed handle of one field, made by `Schema` and valid for every buffer of an equal schema.
///
/// Shaped is false for scalars, which `Writer` gives as a reference, and true for fields with a
/// shape, which it gives as a span. A wrong dtype, `next` of a column or `returns` of a field that
/// is no reward does not compile. A handle of another schema throws `std::invalid_argument` if its
/// number, dtype or role does not fit.
template <Element T, Role R, bool Shaped>
class Field {
 public:
  using element_type = T;                  ///< The type of its elements.
  static constexpr Role kRole = R;         ///< Purpose of the field.
  static constexpr bool kShaped = Shaped;  ///< Whether it has a shape.

  /// Number of the field in its schema, in order of declaration.
  [[nodiscard]] std::size_t index() const noexcept { return index_; }

 private:
  friend class Schema;
  explicit Field(std::size_t index) noexcept : index_(index) {}
  std::size_t index_;
};

namespace detail {
/// dtype, role and shapedness of a field in one word, so that one comparison checks a handle.
constexpr std::uint32_t signature(DType dtype, Role role, bool shaped) noexcept {
  return static_cast<std::uint32_t>(dtype) | static_cast<std::uint32_t>(role) << 8U |
         static_cast<std::uint32_t>(shaped) << 16U;
}

template <class FieldType>
inline constexpr std::uint32_t kSignature = signature(kDType<typename FieldType::element_type>,
                                                      FieldType::kRole, FieldType::kShaped);
}  // namespace detail

/// Handle of a field whose element type is known only at run time: for simulators and bindings that
/// learn their fields from a configuration. Its field is read and written as bytes, row-major, in
/// the machine's byte order, aligned for the element type. `Schema` makes it, or a typed handle is
/// converted to it. Where a typed handle would not compile, it throws `std::invalid_argument`.
class AnyField {
 public:
  /// Forgets the type.
  template <Element T, Role R, bool Shaped>
  explicit AnyField(Field<T, R, Shaped> field) noexcept
      : index_(field.index()), signature_(detail::kSignature<Field<T, R, Shaped>>) {}

  /// Number of the field in its schema, in order of declaration.
  [[nodiscard]] std::size_t index() const noexcept { return index_; }
  /// Its dtype, role and whether it has a shape, in one word.
  [[nodiscard]] std::uint32_t signature() const noexcept { return signature_; }
  /// Element type.
  [[nodiscard]] DType dtype() const noexcept { return static_cast<DType>(signature_ & 0xffU); }
  /// Purpose of the field.
  [[nodiscard]] Role role() const noexcept { return static_cast<Role>((signature_ >> 8U) & 0xffU); }

 private:
  friend class Schema;
  AnyField(std::size_t index, std::uint32_t signature) noexcept
      : index_(index), signature_(signature) {}
  std::size_t index_;
  std::uint32_t signature_;
};

/// Handle of a scalar observation.
template <Element T>
using ScalarObservation = Field<T, Role::Observation, false>;
/// Handle of an observation with a shape.
template <Element T>
using Observation = Field<T, Role::Observation, true>;
/// Handle of a scalar per-step column.
template <Element T>
using ScalarColumn = Field<T, Role::Column, false>;
/// Handle of a per-step column with a shape.
template <Element T>
using Column = Field<T, Role::Column, true>;
using Reward = Field<float, Role::Reward, false>;      ///< Handle of a reward.
using Discount = Field<float, Role::Discount, false>;  ///< Handle of a discount.
/// Handle of a scalar column whose values may be replaced.
template <Element T>
using ScalarMutableColumn = Field<T, Role::MutableColumn, false>;
/// Handle of a column with a shape whose values may be replaced.
template <Element T>
using MutableColumn = Field<T, Role::MutableColumn, true>;
/// Handle of a recurrent state.
template <Element T>
using RecurrentState = Field<T, Role::RecurrentState, true>;

}  // namespace reprise
