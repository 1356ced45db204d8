// LAP: items weigh max(priority^0.4, 1) (Fujimoto, Meger and Precup, "An Equivalence between Loss
// Functions and Non-Uniform Sampling in Experience Replay", 2020).
#pragma once

#include <reprise/segment_tree.hpp>
#include <reprise/selector.hpp>

#include <algorithm>
#include <cmath>

inline float loss_adjusted(float priority) {
  return std::max(std::pow(priority, 0.4F), 1.0F);
}

/// The weights of one shard. Called under its lock: no call throws or allocates.
struct LossAdjustedHalf final : reprise::ShardSelector {
  reprise::SegmentTree<float> tree;
  explicit LossAdjustedHalf(std::size_t leaves) : tree(leaves) {}
  void insert(const reprise::ItemRun& run, const reprise::SelectorSummary& other) noexcept final {
    std::size_t leaf = run.first;
    for (const float raw : run.priorities) {
      const float most = std::max({tree.max(), other.max, 1.0F});  // What a new item weighs.
      tree.assign(leaf++, raw >= 0.0F ? loss_adjusted(raw) : reprise::is_item(raw) ? most : 0.0F);
    }
  }
  void erase(std::uint32_t first, std::size_t count) noexcept final {
    tree.fill(first, first + count, 0.0F);
  }
  reprise::SelectorSummary summary() const noexcept final {
    return {.total = tree.total(), .min_positive = 1.0F /* or more */, .max = tree.max()};
  }
  double sum(std::uint32_t first, std::size_t count) const noexcept final {
    return tree.sum(first, first + count);
  }
  void draw(std::span<double> targets, std::span<std::uint32_t> leaves,
            std::span<float> weights) const noexcept final {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      leaves[i] = static_cast<std::uint32_t>(tree.find_prefix_sum(targets[i]));
      weights[i] = tree.leaf(leaves[i]);
    }
  }
  void update(std::span<const std::uint32_t> leaves,
              std::span<const float> weights) noexcept final {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      tree.assign(leaves[i], weights[i]);
    }
  }
};

struct LossAdjusted final : reprise::SelectorRule {
  void weigh(std::span<const float> priorities, std::span<float> weights) const noexcept final {
    std::ranges::transform(priorities, weights.begin(), loss_adjusted);
  }
  std::size_t bytes(std::size_t leaves) const noexcept final { return 6 * leaves; }
  std::unique_ptr<reprise::ShardSelector> make_shard_half(std::size_t leaves) const final {
    return std::make_unique<LossAdjustedHalf>(leaves);
  }
  auto make_selector_rule() const { return std::make_unique<LossAdjusted>(); }
};
