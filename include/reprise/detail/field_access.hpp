#pragma once

#include <cstdint>

/// The inline part of the row layout, for writers. Not for users.
namespace reprise::detail {

/// The place of one field in a row.
struct FieldAccess {
  std::uint64_t offset = 0;  ///< Bytes from the start of the row, or of the recurrent state.
  std::uint64_t elements = 0;
  std::uint32_t signature = 0;
};

}  // namespace reprise::detail
