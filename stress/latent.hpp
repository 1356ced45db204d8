#pragma once

#include "row.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace stress {

/// Words of a value of the mutable column.
inline constexpr std::size_t kLatentWords = 9;

/// Fills a value whose words all tell the step, by the hash of its identity, and the write.
inline void render_latent(std::uint64_t step, std::uint64_t write,
                          std::span<std::uint64_t> to) noexcept {
  to[0] = write;
  for (std::size_t i = 1; i < to.size(); ++i) {
    to[i] = mix(step ^ mix(write + i));
  }
}

/// Whether it is one value that `render_latent` made for the step.
[[nodiscard]] inline bool is_latent(std::uint64_t step,
                                    std::span<const std::uint64_t> value) noexcept {
  bool same = true;
  for (std::size_t i = 1; i < value.size(); ++i) {
    same &= value[i] == mix(step ^ mix(value[0] + i));
  }
  return same;
}

}  // namespace stress
