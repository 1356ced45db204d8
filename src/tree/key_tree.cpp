#include "tree/key_tree.hpp"

#include <algorithm>

namespace reprise::tree {

void KeyTree::assign_run(std::uint32_t first, std::span<const std::int64_t> keys) noexcept {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    visible_ -= is_visible(first + static_cast<std::uint32_t>(i)) ? 1U : 0U;
    visible_ += keys[i] > 0 ? 1U : 0U;
  }
  keys_.assign_run(first, keys);
}

void KeyTree::clear_run(std::uint32_t first, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    visible_ -= is_visible(first + static_cast<std::uint32_t>(i)) ? 1U : 0U;
  }
  keys_.clear_run(first, count);
}

void KeyTree::assign(std::uint32_t leaf, std::int64_t key) noexcept {
  visible_ -= keys_[leaf] > 0 ? 1U : 0U;
  visible_ += key > 0 ? 1U : 0U;
  keys_.assign(leaf, key);
}

void KeyTree::hide(std::uint32_t leaf) noexcept {
  if (keys_[leaf] > 0) {
    assign(leaf, ~keys_[leaf]);
  }
}

void KeyTree::show(std::uint32_t leaf) noexcept {
  if (keys_[leaf] < 0) {
    assign(leaf, ~keys_[leaf]);
  }
}

}  // namespace reprise::tree
