#pragma once

#include "select/weight_rule.hpp"
#include "tree/weight_tree.hpp"

namespace reprise::select {

/// `Proportional`, and `Uniform` as the case where every item weighs 1.
class TreeSelector final : public ShardSelector {
 public:
  TreeSelector(const WeightRule& rule, std::size_t leaves) : rule_(rule), tree_(leaves) {}

  void insert(const ItemRun& run, const SelectorSummary& elsewhere) noexcept override;
  void erase(std::uint32_t first, std::size_t count) noexcept override {
    tree_.clear_run(first, count);
  }
  [[nodiscard]] SelectorSummary summary() const noexcept override {
    return {tree_.total(), tree_.min_positive(), tree_.max(), highest_seen_};
  }
  [[nodiscard]] double sum(std::uint32_t first, std::size_t count) const noexcept override {
    return tree_.sum_run(first, count);
  }
  void draw(std::span<double> targets, std::span<std::uint32_t> leaves,
            std::span<float> weights) const noexcept override {
    tree_.find(targets, leaves, weights);
  }
  [[nodiscard]] bool all_positive(std::span<const std::uint32_t> leaves) const noexcept override {
    return tree_.all_positive(leaves);
  }
  void update(std::span<const std::uint32_t> leaves,
              std::span<const float> weights) noexcept override;
  void hide(std::span<const std::uint32_t> leaves) noexcept override;
  void show(std::span<const std::uint32_t> leaves,
            std::span<const float> weights) noexcept override {
    tree_.assign(leaves, weights);
  }

 private:
  const WeightRule rule_;
  tree::WeightTree tree_;
  float highest_seen_ = 0.0F;
};

}  // namespace reprise::select
