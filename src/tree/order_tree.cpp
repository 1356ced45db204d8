#include "tree/order_tree.hpp"

#include <algorithm>

namespace reprise::tree {
namespace {

constexpr std::size_t divide_up(std::size_t a, std::size_t b) {
  return a / b + (a % b != 0);
}

}  // namespace

OrderTree::Shape::Shape(std::size_t leaves) noexcept {
  std::size_t nodes = leaves;
  while (true) {
    first[levels++] = size;
    size += divide_up(nodes, kFanout) * kFanout;
    if (nodes == 1 && levels > 1) {  // The root is no leaf: hidden keys stay below it.
      return;
    }
    nodes = divide_up(nodes, kFanout);
  }
}

OrderTree::OrderTree(std::size_t leaves)
    : shape_(std::max<std::size_t>(leaves, 1)), keys_(shape_.size) {}

std::size_t OrderTree::bytes(std::size_t leaves) noexcept {
  return Shape(std::max<std::size_t>(leaves, 1)).size * sizeof(std::int64_t);
}

/// Of a node above the leaves; 0 if all its children are absent or hidden.
std::int64_t OrderTree::largest_child(std::size_t level, std::size_t node) const noexcept {
  const std::int64_t* const child = keys_.data() + shape_.first[level - 1] + node * kFanout;
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < kFanout; ++i) {
    largest = std::max(largest, child[i]);
  }
  return largest;
}

std::uint32_t OrderTree::best_leaf() const noexcept {
  const std::int64_t key = best();
  std::size_t node = 0;
  for (std::size_t level = shape_.levels - 1; level-- > 0;) {
    const std::int64_t* const child = keys_.data() + shape_.first[level] + node * kFanout;
    node =
        node * kFanout + static_cast<std::size_t>(std::find(child, child + kFanout, key) - child);
  }
  return static_cast<std::uint32_t>(node);
}

void OrderTree::refresh_run(std::size_t first, std::size_t count) noexcept {
  if (count == 0) {
    return;
  }
  std::size_t last = first + count - 1;
  for (std::size_t level = 1; level < shape_.levels; ++level) {
    first /= kFanout;
    last /= kFanout;
    for (std::size_t node = first; node <= last; ++node) {
      keys_[shape_.first[level] + node] = largest_child(level, node);
    }
  }
}

void OrderTree::assign_run(std::uint32_t first, std::span<const std::int64_t> keys) noexcept {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::int64_t& key = keys_[first + i];
    visible_ -= key > 0 ? 1U : 0U;
    visible_ += keys[i] > 0 ? 1U : 0U;
    key = keys[i];
  }
  refresh_run(first, keys.size());
}

void OrderTree::clear_run(std::uint32_t first, std::size_t count) noexcept {
  std::int64_t* const begin = keys_.data() + first;
  visible_ -= static_cast<std::size_t>(
      std::count_if(begin, begin + count, [](std::int64_t key) { return key > 0; }));
  std::fill_n(begin, count, 0);
  refresh_run(first, count);
}

void OrderTree::assign(std::uint32_t leaf, std::int64_t key) noexcept {
  visible_ -= keys_[leaf] > 0 ? 1U : 0U;
  visible_ += key > 0 ? 1U : 0U;
  keys_[leaf] = key;
  std::size_t node = leaf;
  for (std::size_t level = 1; level < shape_.levels; ++level) {
    node /= kFanout;
    std::int64_t& largest = keys_[shape_.first[level] + node];
    const std::int64_t now = largest_child(level, node);
    if (now == largest) {
      return;  // So are all above.
    }
    largest = now;
  }
}

void OrderTree::hide(std::uint32_t leaf) noexcept {
  if (keys_[leaf] > 0) {
    assign(leaf, ~keys_[leaf]);
  }
}

void OrderTree::show(std::uint32_t leaf) noexcept {
  if (keys_[leaf] < 0) {
    assign(leaf, ~keys_[leaf]);
  }
}

}  // namespace reprise::tree
