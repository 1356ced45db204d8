#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

namespace textbook {

/// The textbook's sum tree with lazy propagation. A change of a range, x becomes scale * x +
/// offset, stops at nodes whose leaves all lie in the range. Such a node remembers the change, and
/// passes it to its children when a call needs one of them.
class LazySumTree {
 public:
  explicit LazySumTree(std::size_t leaves) : width_(std::bit_ceil(leaves)), nodes_(2 * width_) {}

  [[nodiscard]] double total() const { return nodes_[1].sum; }

  void change(std::size_t first, std::size_t last, double scale, double offset) {
    change(1, width_, first, last, scale, offset);
  }

  void set(std::size_t leaf, double value) {
    std::size_t node = 1;
    for (std::size_t width = width_; width > 1; width /= 2) {
      push(node, width);
      node = 2 * node + (leaf & width / 2 ? 1 : 0);
    }
    nodes_[node].sum = value;
    while (node > 1) {
      node /= 2;
      pull(node);
    }
  }

  /// Returns the leaf in whose range of prefix sums `target` lies, which is from 0 to below the
  /// total.
  [[nodiscard]] std::size_t find(double target) {
    std::size_t node = 1;
    for (std::size_t width = width_; width > 1; width /= 2) {
      push(node, width);
      node *= 2;
      if (target >= nodes_[node].sum && nodes_[node + 1].sum > 0.0) {
        target -= nodes_[node].sum;
        ++node;
      }
    }
    return node - width_;
  }

 private:
  struct Node {
    double sum = 0.0;
    double scale = 1.0;
    double offset = 0.0;
  };

  /// Changes a node's sum, and remembers the change for its children.
  void apply(std::size_t node, std::size_t leaves, double scale, double offset) {
    Node& to = nodes_[node];
    to.sum = to.sum * scale + offset * static_cast<double>(leaves);
    to.scale *= scale;
    to.offset = to.offset * scale + offset;
  }
  /// Passes the change that a node remembers to its children.
  void push(std::size_t node, std::size_t leaves) {
    Node& from = nodes_[node];
    if (from.scale != 1.0 || from.offset != 0.0) {
      apply(2 * node, leaves / 2, from.scale, from.offset);
      apply(2 * node + 1, leaves / 2, from.scale, from.offset);
      from.scale = 1.0;
      from.offset = 0.0;
    }
  }
  void pull(std::size_t node) {
    nodes_[node].sum = nodes_[2 * node].sum + nodes_[2 * node + 1].sum;
  }
  /// Changes the leaves [first, last), counted from the first leaf of `node`, which has `leaves`
  /// leaves.
  void change(std::size_t node, std::size_t leaves, std::size_t first, std::size_t last,
              double scale, double offset) {
    if (first == 0 && last == leaves) {
      apply(node, leaves, scale, offset);
      return;
    }
    push(node, leaves);
    const std::size_t half = leaves / 2;
    if (first < half) {
      change(2 * node, half, first, std::min(last, half), scale, offset);
    }
    if (last > half) {
      change(2 * node + 1, half, std::max(first, half) - half, last - half, scale, offset);
    }
    pull(node);
  }

  std::size_t width_;
  std::vector<Node> nodes_;  ///< The leaves begin at node `width_`, the root is node 1.
};

}  // namespace textbook
