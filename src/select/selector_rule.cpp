#include <reprise/selector.hpp>

#include "base/text.hpp"
#include "select/tree_selector.hpp"
#include "select/weight_rule.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace reprise {

void ShardSelector::expect_leaves(std::size_t /*leaves*/) noexcept {}

bool ShardSelector::all_positive(std::span<const std::uint32_t> leaves) const noexcept {
  return std::ranges::all_of(leaves, [this](std::uint32_t leaf) { return sum(leaf, 1) > 0.0; });
}

void ShardSelector::hide(std::span<const std::uint32_t> leaves) noexcept {
  static constexpr std::array<float, 512> kNothing{};
  while (!leaves.empty()) {
    const std::size_t count = std::min(kNothing.size(), leaves.size());
    show(leaves.first(count), std::span(kNothing).first(count));
    leaves = leaves.subspan(count);
  }
}

void ShardSelector::show(std::span<const std::uint32_t> leaves,
                         std::span<const float> weights) noexcept {
  update(leaves, weights);
}

void ShardSelector::store(std::span<const std::uint32_t> leaves,
                          std::span<float> stored) const noexcept {
  std::transform(leaves.begin(), leaves.end(), stored.begin(),
                 [this](std::uint32_t leaf) { return static_cast<float>(sum(leaf, 1)); });
}

void ShardSelector::restore(std::span<const std::uint32_t> leaves,
                            std::span<const float> stored) noexcept {
  update(leaves, stored);
}

void SelectorRule::weigh(std::span<const float> priorities,
                         std::span<float> weights) const noexcept {
  std::memmove(weights.data(), priorities.data(), priorities.size_bytes());
}

bool SelectorRule::weighable(float priority) const noexcept {
  float weight = 0.0F;
  weigh(std::span(&priority, 1), std::span(&weight, 1));
  return std::isfinite(weight) && weight >= 0.0F;
}

void SelectorRule::check_alpha(float alpha) const {
  base::require(alpha >= 0.0F && alpha <= select::kMaxAlpha, base::Call{"set_alpha"}, "alpha is ",
                alpha, "; allowed: 0 to ", select::kMaxAlpha);
}

std::size_t SelectorRule::bytes(std::size_t leaves) const noexcept {
  return tree::WeightTree::bytes(leaves);
}

std::unique_ptr<ShardSelector> SelectorRule::make_shard_selector(std::size_t leaves) const {
  return std::make_unique<select::TreeSelector>(select::WeightRule(this), leaves);
}

void SelectorRule::refresh(const EachShardSelector& /*each_shard_selector*/) noexcept {}

}  // namespace reprise
