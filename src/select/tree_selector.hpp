#pragma once

#include "select/weight_rule.hpp"
#include "tree/weight_tree.hpp"

#include <cstddef>
#include <span>

namespace reprise::select {

/// `Proportional`, and `Uniform` as the case where every item weighs 1.
class TreeSelector final : public ShardSelector {
 public:
  TreeSelector(const WeightRule& rule, std::size_t leaves) : rule_(rule), tree_(leaves) {}

  void expect_leaves(std::size_t leaves) noexcept override { tree_.expect_leaves(leaves); }
  void insert(const ItemRun& run, const SelectorSummary& other_shards) noexcept override;
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

  void store(std::span<const std::uint32_t> leaves,
             std::span<float> stored) const noexcept override;
  void restore(std::span<const std::uint32_t> leaves,
               std::span<const float> stored) noexcept override {
    tree_.assign(leaves, stored);
  }
  [[nodiscard]] SelectorMemory memory() const noexcept override {
    return {1.0, static_cast<double>(highest_seen_)};
  }
  /// Checkpoints of other versions may have a factor of all weights in the place of the 1. Ignores
  /// values that no version saves.
  void set_memory(const SelectorMemory& memory) noexcept override;

  /// Raises every weight, and the highest ever seen, to alpha / present alpha, as `tree::raise`
  /// does; priorities are weighed with alpha from now on. The present alpha must not be 0. O(leaves
  /// used).
  void set_alpha(float alpha) noexcept override;

  /// Multiplies every weight by a factor in (0, 1], rounding once; the highest ever seen does not
  /// change. A weight above 0 stays above 0: at least the smallest float. O(leaves used). False if
  /// all items weigh alike.
  bool decay(float factor) noexcept override;

 private:
  void scale(double factor) noexcept;

  WeightRule rule_;
  tree::WeightTree tree_;
  std::size_t used_ = 0;  ///< Leaves from here on were never written.
  float highest_seen_ = 0.0F;
};

}  // namespace reprise::select
