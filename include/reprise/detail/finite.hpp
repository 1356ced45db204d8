#pragma once

#include <reprise/schema.hpp>

#include <cstddef>
#include <span>

/// Finds the values that `Schema::require_finite` refuses, for writers and bindings. Not for users.
namespace reprise::detail {

struct NotFinite {
  std::size_t element = 0;
  const char* name = nullptr;  ///< "nan", "inf" or "-inf"; null if every element is finite.
};

/// The first element of an array that is NaN or infinite.
[[nodiscard]] NotFinite find_not_finite(DType dtype, std::span<const std::byte> values) noexcept;

}  // namespace reprise::detail
