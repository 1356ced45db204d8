#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::select {

/// Whether the leaves drawn at rising targets can have one interval each: equal leaves then follow
/// each other. Looks at about 256 draws, evenly spaced. Checks the draws of a user's selector.
inline bool one_interval_each(std::span<const std::uint32_t> leaves) noexcept {
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
