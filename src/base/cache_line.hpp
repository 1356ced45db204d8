#pragma once

#include <cstddef>

namespace reprise::base {

/// Bytes of a cache line. One constant of our own: std::hardware_destructive_interference_size
/// depends on compiler and tuning flags, which must not change the layout of shared types.
inline constexpr std::size_t kCacheLine = 64;

}  // namespace reprise::base
