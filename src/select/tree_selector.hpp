#pragma once

#include "select/weight_rule.hpp"
#include "tree/weighing.hpp"
#include "tree/weight_tree.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>

namespace reprise::select {

/// The shard selector of `Proportional`, and of `Uniform` as the case where every item weighs 1.
/// That of `Recency` derives from it, because only the weights of new items differ.
class TreeSelector : public ShardSelector {
 public:
  TreeSelector(const WeightRule& rule, std::size_t leaves) : rule_(rule), tree_(leaves) {}

  void expect_leaves(std::size_t leaves) noexcept override { tree_.expect_leaves(leaves); }
  void insert(const ItemRun& run, const SelectorSummary& other_shards) noexcept override {
    // Each block is written before it is read.
    std::array<float, kBlock> weights;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    float in_buffer = std::max(tree_.max(), other_shards.max);
    highest_seen_ = std::max(highest_seen_, other_shards.highest_seen);
    for (std::size_t done = 0; done < run.priorities.size(); done += kBlock) {
      const auto raw = run.priorities.subspan(done, std::min(kBlock, run.priorities.size() - done));
      const std::span<float> block = std::span(weights).first(raw.size());
      rule_.weigh_run(raw, block, in_buffer, highest_seen_);
      assign_run(run.first + static_cast<std::uint32_t>(done), block);
    }
  }
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
              std::span<const float> weights) noexcept override {
    if (rule_.weighted()) {
      tree_.assign(leaves, weights);
      highest_seen_ = std::max(highest_seen_, tree_.max());
    }
  }
  void show(std::span<const std::uint32_t> leaves,
            std::span<const float> weights) noexcept override {
    tree_.assign(leaves, weights);
  }

  void store(std::span<const std::uint32_t> leaves,
             std::span<float> stored) const noexcept override {
    std::ranges::transform(leaves, stored.begin(),
                           [this](std::uint32_t leaf) { return tree_.weight(leaf); });
  }
  [[nodiscard]] SelectorMemory memory() const noexcept override {
    return {1.0, static_cast<double>(highest_seen_)};
  }
  /// The first number is 1, or in checkpoints of other versions a factor of all weights; they never
  /// saved one below kSmallestFactor. Values that no version saves are ignored.
  void set_memory(const SelectorMemory& memory) noexcept override {
    constexpr double kSmallestFactor = 0x1p-60;
    if (memory.first >= kSmallestFactor && memory.first < 1.0) {
      scale(memory.first);
    }
    if (memory.second >= 0.0 && memory.second <= double{std::numeric_limits<float>::max()}) {
      highest_seen_ = highest_seen_of(memory.second);
    }
  }

  /// Raises every weight, and the highest one ever seen, to the power alpha / present alpha by
  /// `tree::raise`; priorities are weighed with `alpha` from now on. The present alpha must not be
  /// 0. O(leaves used).
  bool set_alpha(float alpha) noexcept override {
    // Only rules with an alpha are asked. NOLINTNEXTLINE(bugprone-unchecked-optional-access)
    const double exponent = static_cast<double>(alpha) / static_cast<double>(*rule_.alpha());
    tree_.change_first(used_, [&](std::span<float> leaves) { tree::raise(leaves, exponent); });
    tree::raise(std::span(&highest_seen_, 1), exponent);
    return rule_.set_alpha(alpha);
  }

  /// Multiplies every weight by a factor in (0, 1], rounding once; the highest weight ever seen
  /// stays as it is. A weight above 0 stays above 0: at least 2^-126. O(leaves used). Returns
  /// false, and does nothing, if all items weigh alike.
  bool decay(float factor) noexcept override {
    if (rule_.weighted()) {
      scale(static_cast<double>(factor));
    }
    return rule_.weighted();
  }

 protected:
  /// How many leaves are handled at a time, with their weights on the stack.
  static constexpr std::size_t kBlock = 512;

  void assign_run(std::uint32_t first, std::span<const float> weights) noexcept {
    used_ = std::max(used_, first + weights.size());
    tree_.assign_run(first, weights);
  }
  /// Multiplies every weight by a factor in [0, 1]; a weight above 0 stays above 0. O(leaves used).
  void scale(double factor) noexcept {
    tree_.change_first(used_, [factor](std::span<float> leaves) {
      for (float& leaf : leaves) {
        const auto product = static_cast<float>(static_cast<double>(leaf) * factor);
        // The floor is a normal number, because a thread may flush denormal ones to 0.
        leaf = leaf > 0.0F ? std::max(product, std::numeric_limits<float>::min()) : 0.0F;
      }
    });
  }

 private:
  WeightRule rule_;
  tree::WeightTree tree_;
  std::size_t used_ = 0;  ///< Leaves from here on were never written.
  float highest_seen_ = 0.0F;
};

}  // namespace reprise::select
