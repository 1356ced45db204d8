#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace reprise {

/// Element type of a field.
enum class DType : std::uint8_t { U8, I8, U16, I16, U32, I32, U64, I64, Bool, F32, F64 };

/// What a field is for. It decides where a field may be read and written:
/// `next` takes observations only, `returns` takes rewards only.
enum class Role : std::uint8_t {
  Observation,  ///< What the agent sees; every step also has a next observation.
  Column,       ///< Belongs to one step: action, log-probability, anything else.
  Reward,       ///< A float column that n-step returns are summed over.
  Discount,     ///< A float column in [0, 1] that multiplies into the discounts of `Transitions`.
  /// What a recurrent network carries into a step; of `Sequences` each item has that of its first
  /// step alone.
  RecurrentState,
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
static_assert(sizeof(bool) == 1, "a bool field takes one byte per element");
}  // namespace detail

/// The eleven element types of a field.
template <class T>
concept Element = detail::kDTypeOf<T>
>= 0;

template <Element T>
inline constexpr DType kDType = static_cast<DType>(detail::kDTypeOf<T>);

/// Typed handle of one field, made by `Schema` and valid for every buffer of an equal schema.
///
/// Shaped is false for scalars, which `Writer` gives as a reference, and true for fields with a
/// shape, which it gives as a span. A wrong dtype, `next` of a column or `returns` of something
/// that is no reward does not compile. A handle of another schema throws
/// `std::invalid_argument` where its number, dtype or role does not fit.
template <Element T, Role R, bool Shaped>
class Field {
 public:
  using element_type = T;
  static constexpr Role kRole = R;
  static constexpr bool kShaped = Shaped;

  /// Number of the field in its schema, in order of declaration.
  [[nodiscard]] std::size_t index() const noexcept { return index_; }

 private:
  friend class Schema;
  explicit Field(std::size_t index) noexcept : index_(index) {}
  std::size_t index_;
};

template <Element T>
using ScalarObservation = Field<T, Role::Observation, false>;
template <Element T>
using Observation = Field<T, Role::Observation, true>;
template <Element T>
using ScalarColumn = Field<T, Role::Column, false>;
template <Element T>
using Column = Field<T, Role::Column, true>;
using Reward = Field<float, Role::Reward, false>;
using Discount = Field<float, Role::Discount, false>;
template <Element T>
using RecurrentState = Field<T, Role::RecurrentState, true>;

}  // namespace reprise
