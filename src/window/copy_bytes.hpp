#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

namespace reprise::window {

/// Prefetches every cache line of 64 bytes.
inline void prefetch(const std::byte* from, std::size_t bytes) noexcept {
  for (std::size_t offset = 0; offset < bytes; offset += 64) {
    __builtin_prefetch(from + offset);
  }
}

/// Calls body(bytes). For the usual sizes of small fields the argument is a constant, so that a
/// memcpy in the body is inlined.
template <class Body>
[[gnu::always_inline]] inline void with_size(std::size_t bytes, const Body& body) noexcept {
  switch (bytes) {
    case 1:
      return body(std::integral_constant<std::size_t, 1>());
    case 4:
      return body(std::integral_constant<std::size_t, 4>());
    case 8:
      return body(std::integral_constant<std::size_t, 8>());
    case 16:
      return body(std::integral_constant<std::size_t, 16>());
    case 32:
      return body(std::integral_constant<std::size_t, 32>());
    default:
      return body(bytes);
  }
}

inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  with_size(bytes, [=](auto size) { std::memcpy(to, from, size); });
}

}  // namespace reprise::window
