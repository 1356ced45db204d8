#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::select {

/// Whether draws of ascending targets have equal leaves next to each other, as they do if each leaf
/// has one interval of targets. Looks at about 256 evenly spaced draws, as the selector may be a
/// user's.
inline bool equal_leaves_are_adjacent(std::span<const std::uint32_t> leaves) noexcept {
  constexpr std::size_t kLooks = 256;
  const std::size_t stride = std::max<std::size_t>(leaves.size() / kLooks, 1);
  for (std::size_t i = 2 * stride; i < leaves.size(); i += stride) {
    const std::uint32_t leaf = leaves[i];
    for (std::size_t j = 0; leaf != leaves[i - stride] && j < i - stride; j += stride) {
      if (leaves[j] == leaf) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace reprise::select
