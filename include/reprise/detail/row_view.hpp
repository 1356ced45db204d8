#pragma once

#include <reprise/detail/field_access.hpp>
#include <reprise/schema.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

/// The inline part of a writer: the places of the current rows. Not for users.
namespace reprise::detail {

/// One type-erased value of `Writer::add_transition`, or an array of values with a row for each
/// transition of `Writer::add_transitions`.
struct RawValue {
  std::size_t index;
  bool next;
  std::uint32_t signature;
  const void* data;
  std::size_t elements;
};

struct RowView {
  static constexpr int kNow = 0;
  static constexpr int kNext = 1;
  static constexpr int kState = 2;

  /// The current row, the next row and the current step's recurrent state, by the numbers above.
  /// Rows are null outside an episode.
  std::byte* rows[3] = {nullptr, nullptr, nullptr};
  std::uint64_t taken[2] = {0, 0};  ///< Bit i: field i was accessed, or kept from the step before.
  const FieldAccess* fields = nullptr;
  std::size_t field_count = 0;

  template <int Which, Element T, Role R, bool Shaped>
  std::conditional_t<Shaped, std::span<T>, T&> access(Field<T, R, Shaped> field) {
    const std::size_t index = field.index();
    if (index >= field_count || fields[index].signature != kSignature<Field<T, R, Shaped>> ||
        rows[Which] == nullptr) {
      refuse(index, kSignature<Field<T, R, Shaped>>);
    }
    taken[Which] |= std::uint64_t{1} << index;
    constexpr int kPlace = traits(R).per_item ? kState : Which;
    T* const data = reinterpret_cast<T*>(rows[kPlace] + fields[index].offset);
    if constexpr (Shaped) {
      return std::span<T>(data, fields[index].elements);
    } else {
      return *data;
    }
  }

  /// Accesses any field of a step.
  std::span<std::byte> access(int which, AnyField field) {
    const std::size_t index = field.index();
    if (index >= field_count || fields[index].signature != field.signature() ||
        rows[which] == nullptr || (which == kNext && !traits(field.role()).has_next)) {
      refuse(index, field.signature());
    }
    taken[which] |= std::uint64_t{1} << index;
    const int place = traits(field.role()).per_item ? kState : which;
    return {rows[place] + fields[index].offset,
            fields[index].elements * element_bytes(field.dtype())};
  }

 private:
  [[noreturn]] void refuse(std::size_t index, std::uint32_t wanted) const;
};

}  // namespace reprise::detail
