#pragma once

#include <cstddef>
#include <span>

namespace reprise::record {

/// Bytes to write, and room for bytes to be read.
using Bytes = std::span<const std::byte>;
using Room = std::span<std::byte>;

}  // namespace reprise::record
