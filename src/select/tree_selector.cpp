#include "select/tree_selector.hpp"

#include "base/extremes.hpp"
#include "tree/weighing.hpp"

#include <algorithm>
#include <array>
#include <functional>

namespace reprise::select {
namespace {

/// Leaves handled together, with their weights on the stack.
constexpr std::size_t kBlock = 512;
/// Below this unit all leaves are computed anew.
constexpr double kSmallestUnit = 0x1p-60;

}  // namespace

void TreeSelector::insert(const ItemRun& run, const SelectorSummary& other_shards) noexcept {
  // Each block is written before it is read.
  std::array<float, kBlock> weights;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  used_ = std::max(used_, run.first + run.priorities.size());
  float in_buffer = std::max(weight_of(tree_.max()), other_shards.max);
  highest_seen_ = std::max(highest_seen_, other_shards.highest_seen);
  for (std::size_t done = 0; done < run.priorities.size(); done += kBlock) {
    const auto raw = run.priorities.subspan(done, std::min(kBlock, run.priorities.size() - done));
    const std::span<float> block = std::span(weights).first(raw.size());
    rule_.weigh_run(raw, block, in_buffer, highest_seen_);
    if (scaled()) {
      to_leaves(block, block);
    }
    tree_.assign_run(run.first + static_cast<std::uint32_t>(done), block);
  }
}

SelectorSummary TreeSelector::summary() const noexcept {
  if (!scaled()) {
    return {tree_.total(), tree_.min_positive(), tree_.max(), highest_seen_};
  }
  return {tree_.total() * unit_, weight_of(tree_.min_positive()), weight_of(tree_.max()),
          highest_seen_};
}

void TreeSelector::update(std::span<const std::uint32_t> leaves,
                          std::span<const float> weights) noexcept {
  if (!rule_.weighted()) {
    return;
  }
  assign(leaves, weights);
  // The rounding of scaled leaves must not raise the maximum above the highest weight ever seen.
  const float highest =
      scaled() ? std::min(weight_of(tree_.max()), base::extreme(weights, 0.0F, std::greater<>()))
               : tree_.max();
  highest_seen_ = std::max(highest_seen_, highest);
}

void TreeSelector::hide(std::span<const std::uint32_t> leaves) noexcept {
  constexpr std::array<float, kBlock> kNothing{};
  while (!leaves.empty()) {
    const std::size_t count = std::min(kBlock, leaves.size());
    tree_.assign(leaves.first(count), std::span(kNothing).first(count));
    leaves = leaves.subspan(count);
  }
}

void TreeSelector::store(std::span<const std::uint32_t> leaves,
                         std::span<float> stored) const noexcept {
  std::transform(leaves.begin(), leaves.end(), stored.begin(),
                 [this](std::uint32_t leaf) { return tree_.weight(leaf); });
}

/// Ignores values that `memory` cannot have returned.
void TreeSelector::set_memory(const SelectorMemory& memory) noexcept {
  if (memory.first >= kSmallestUnit && memory.first <= 1.0) {
    unit_ = memory.first;
  }
  if (memory.second >= 0.0 && memory.second <= double{std::numeric_limits<float>::max()}) {
    highest_seen_ = static_cast<float>(memory.second);
  }
}

void TreeSelector::set_alpha(float alpha) noexcept {
  const double exponent = static_cast<double>(alpha) / static_cast<double>(*rule_.alpha());
  tree_.change_first(used_, [&](std::span<float> leaves) { tree::raise(leaves, unit_, exponent); });
  unit_ = 1.0;
  tree::raise(std::span(&highest_seen_, 1), 1.0, exponent);
  rule_.set_alpha(alpha);
}

bool TreeSelector::decay(float factor) noexcept {
  if (!rule_.weighted()) {
    return false;
  }
  unit_ *= static_cast<double>(factor);
  if (unit_ < kSmallestUnit) {
    unscale();
  }
  return true;
}

/// Assigns weights to leaves, sorted or not; the last of duplicates counts.
void TreeSelector::assign(std::span<const std::uint32_t> leaves,
                          std::span<const float> weights) noexcept {
  if (!scaled()) {
    tree_.assign(leaves, weights);
    return;
  }
  // Each block is written before it is read.
  std::array<float, kBlock> scratch;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  while (!leaves.empty()) {
    const std::size_t count = std::min(kBlock, leaves.size());
    const std::span<float> block = std::span(scratch).first(count);
    to_leaves(weights.first(count), block);
    tree_.assign(leaves.first(count), block);
    leaves = leaves.subspan(count);
    weights = weights.subspan(count);
  }
}

/// Computes leaves from weights. If a float cannot hold one, the unit is first set to 1. The spans
/// may be the same.
void TreeSelector::to_leaves(std::span<const float> weights, std::span<float> leaves) noexcept {
  const double largest = base::extreme(weights, 0.0F, std::greater<>());
  if (largest / unit_ >= double{std::numeric_limits<float>::max()}) {
    unscale();
  }
  const double inverse = 1.0 / unit_;
  std::transform(weights.begin(), weights.end(), leaves.begin(), [inverse](float weight) {
    return static_cast<float>(static_cast<double>(weight) * inverse);
  });
}

/// Sets the unit to 1: leaves become weights.
void TreeSelector::unscale() noexcept {
  tree_.change_first(used_, [this](std::span<float> leaves) {
    std::transform(leaves.begin(), leaves.end(), leaves.begin(),
                   [this](float leaf) { return weight_of(leaf); });
  });
  unit_ = 1.0;
}

}  // namespace reprise::select
