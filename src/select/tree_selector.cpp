#include "select/tree_selector.hpp"

#include "tree/weighing.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace reprise::select {
namespace {

/// Leaves handled together, with their weights on the stack.
constexpr std::size_t kBlock = 512;
/// The smallest factor of all weights that a checkpoint holds.
constexpr double kSmallestFactor = 0x1p-60;

}  // namespace

void TreeSelector::insert(const ItemRun& run, const SelectorSummary& other_shards) noexcept {
  // Each block is written before it is read.
  std::array<float, kBlock> weights;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  used_ = std::max(used_, run.first + run.priorities.size());
  float in_buffer = std::max(tree_.max(), other_shards.max);
  highest_seen_ = std::max(highest_seen_, other_shards.highest_seen);
  for (std::size_t done = 0; done < run.priorities.size(); done += kBlock) {
    const auto raw = run.priorities.subspan(done, std::min(kBlock, run.priorities.size() - done));
    const std::span<float> block = std::span(weights).first(raw.size());
    rule_.weigh_run(raw, block, in_buffer, highest_seen_);
    tree_.assign_run(run.first + static_cast<std::uint32_t>(done), block);
  }
}

void TreeSelector::update(std::span<const std::uint32_t> leaves,
                          std::span<const float> weights) noexcept {
  if (!rule_.weighted()) {
    return;
  }
  tree_.assign(leaves, weights);
  highest_seen_ = std::max(highest_seen_, tree_.max());
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

void TreeSelector::set_memory(const SelectorMemory& memory) noexcept {
  if (memory.first >= kSmallestFactor && memory.first < 1.0) {
    scale(memory.first);
  }
  if (memory.second >= 0.0 && memory.second <= double{std::numeric_limits<float>::max()}) {
    highest_seen_ = static_cast<float>(memory.second);
  }
}

void TreeSelector::set_alpha(float alpha) noexcept {
  const double exponent = static_cast<double>(alpha) / static_cast<double>(*rule_.alpha());
  tree_.change_first(used_, [&](std::span<float> leaves) { tree::raise(leaves, 1.0, exponent); });
  tree::raise(std::span(&highest_seen_, 1), 1.0, exponent);
  rule_.set_alpha(alpha);
}

bool TreeSelector::decay(float factor) noexcept {
  if (!rule_.weighted()) {
    return false;
  }
  scale(static_cast<double>(factor));
  return true;
}

void TreeSelector::scale(double factor) noexcept {
  tree_.change_first(used_, [factor](std::span<float> leaves) {
    for (float& leaf : leaves) {
      const auto product = static_cast<float>(static_cast<double>(leaf) * factor);
      leaf = leaf > 0.0F ? std::max(product, std::numeric_limits<float>::denorm_min()) : 0.0F;
    }
  });
}

}  // namespace reprise::select
