#pragma once

#include "select/weight_rule.hpp"
#include "tree/weight_tree.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

namespace reprise::select {

/// `Proportional`, and `Uniform` as the case where every item weighs 1.
///
/// Decay multiplies one number, the unit: an item weighs its leaf times the unit. Incoming weights
/// are divided by the unit in double precision and rounded once: exact for units that are powers of
/// two, else to half a unit in the last place. Draws report leaves. With a unit of 1, as without
/// any decay, leaves are weights and nothing is computed.
class TreeSelector final : public ShardSelector {
 public:
  TreeSelector(const WeightRule& rule, std::size_t leaves) : rule_(rule), tree_(leaves) {}

  void expect_leaves(std::size_t leaves) noexcept override { tree_.expect_leaves(leaves); }
  void insert(const ItemRun& run, const SelectorSummary& other_shards) noexcept override;
  void erase(std::uint32_t first, std::size_t count) noexcept override {
    tree_.clear_run(first, count);
  }
  [[nodiscard]] SelectorSummary summary() const noexcept override;
  [[nodiscard]] double unit() const noexcept override { return unit_; }
  [[nodiscard]] double sum(std::uint32_t first, std::size_t count) const noexcept override {
    return tree_.sum_run(first, count) * unit_;
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

  /// Stores leaves as they are, so that no bit is lost. `memory` has the unit and the highest
  /// weight ever seen.
  void store(std::span<const std::uint32_t> leaves,
             std::span<float> stored) const noexcept override;
  void restore(std::span<const std::uint32_t> leaves,
               std::span<const float> stored) noexcept override {
    tree_.assign(leaves, stored);
  }
  [[nodiscard]] SelectorMemory memory() const noexcept override {
    return {unit_, static_cast<double>(highest_seen_)};
  }
  void set_memory(const SelectorMemory& memory) noexcept override;

  /// Raises every weight, and the highest ever seen, to alpha / present alpha, as `tree::raise`
  /// does; priorities are weighed with alpha from now on. The present alpha must not be 0. O(leaves
  /// used).
  void set_alpha(float alpha) noexcept override;

  /// Multiplies every weight by a factor in (0, 1]; the highest ever seen does not change. A weight
  /// above 0 stays above 0: at least the smallest float. O(1), and O(leaves used) once in about 60
  /// halvings. False if all items weigh alike.
  bool decay(float factor) noexcept override;

 private:
  /// The weight of a leaf as a float: at least the smallest positive float if the leaf is above 0.
  [[nodiscard]] float weight_of(float leaf) const noexcept {
    const auto weight = static_cast<float>(static_cast<double>(leaf) * unit_);
    return leaf > 0.0F ? std::max(weight, std::numeric_limits<float>::denorm_min()) : 0.0F;
  }
  [[nodiscard]] bool scaled() const noexcept { return unit_ != 1.0; }
  void assign(std::span<const std::uint32_t> leaves, std::span<const float> weights) noexcept;
  void to_leaves(std::span<const float> weights, std::span<float> leaves) noexcept;
  void unscale() noexcept;

  WeightRule rule_;
  tree::WeightTree tree_;
  /// In [2^-60, 1], so that leaves of a usual weight are far from overflow.
  double unit_ = 1.0;
  std::size_t used_ = 0;  ///< Leaves from here on were never written.
  float highest_seen_ = 0.0F;
};

}  // namespace reprise::select
