#include "select/tree_selector.hpp"

#include <algorithm>
#include <array>

namespace reprise::select {
namespace {

/// Leaves worked at a time, with their weights on the stack.
constexpr std::size_t kBlock = 512;

}  // namespace

void TreeSelector::insert(const ItemRun& run, const SelectorSummary& elsewhere) noexcept {
  // Written before it is read, as far as a block goes.
  std::array<float, kBlock> weights;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  float in_buffer = std::max(tree_.max(), elsewhere.max);
  highest_seen_ = std::max(highest_seen_, elsewhere.highest_seen);
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

}  // namespace reprise::select
