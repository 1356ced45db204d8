#pragma once

#include <bit>
#include <cstddef>
#include <span>

namespace reprise::record {

/// Bytes to write, and memory into which bytes are read.
using Bytes = std::span<const std::byte>;
using WritableBytes = std::span<std::byte>;

static_assert(std::endian::native == std::endian::little,
              "numbers are written as they lie in memory, little-endian");

}  // namespace reprise::record
