#pragma once

#include <reprise/selector.hpp>

#include "select/weight_rule.hpp"
#include "tree/order_tree.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace reprise::select {

/// What comes first.
enum class Order : std::uint8_t { Oldest, Youngest, Highest, Lowest };

/// Items of one shard in an order of all shards: keys are comparable between shards, and the
/// largest comes first. It is not drawn from by weight, but taken from.
class OrderedSelector final : public ShardSelector {
 public:
  OrderedSelector(Order order, const WeightRule& rule, std::size_t leaves)
      : order_(order), rule_(rule), tree_(leaves) {}

  void expect_leaves(std::size_t leaves) noexcept override { tree_.expect_leaves(leaves); }
  void insert(const ItemRun& run, const SelectorSummary& elsewhere) noexcept override;
  void erase(std::uint32_t first, std::size_t count) noexcept override {
    tree_.clear_run(first, count);
  }
  /// The total is the number of items.
  [[nodiscard]] SelectorSummary summary() const noexcept override;
  /// Items of the run; for heaps the sum of their priorities. O(run).
  [[nodiscard]] double sum(std::uint32_t first, std::size_t count) const noexcept override;
  /// Not called for halves with an order.
  void draw(std::span<double> targets, std::span<std::uint32_t> leaves,
            std::span<float> weights) const noexcept override;
  [[nodiscard]] bool all_positive(std::span<const std::uint32_t> leaves) const noexcept override;
  void update(std::span<const std::uint32_t> leaves,
              std::span<const float> weights) noexcept override;
  void hide(std::span<const std::uint32_t> leaves) noexcept override;
  void show(std::span<const std::uint32_t> leaves,
            std::span<const float> weights) noexcept override;
  [[nodiscard]] SelectorMemory memory() const noexcept override {
    return {0.0, static_cast<double>(highest_seen_)};
  }
  void set_memory(const SelectorMemory& memory) noexcept override {
    highest_seen_ = static_cast<float>(
        std::clamp(memory.second, 0.0, double{std::numeric_limits<float>::max()}));
  }

  /// The key of the first item; 0 if there is none.
  [[nodiscard]] std::int64_t best() const noexcept { return tree_.best(); }
  /// Whether that item was decided before the one with this number; only `Oldest` tells.
  [[nodiscard]] bool best_is_before(std::uint64_t number) const noexcept;
  /// Hides the first item. Not if there is none.
  std::uint32_t take_best() noexcept;

 private:
  [[nodiscard]] bool by_priority() const noexcept {
    return order_ == Order::Highest || order_ == Order::Lowest;
  }
  [[nodiscard]] float priority_of(std::int64_t key) const noexcept;
  [[nodiscard]] std::int64_t key_of(float priority, std::uint32_t leaf) const noexcept;

  const Order order_;
  const WeightRule rule_;  ///< Leaves priorities as they are; for initial ones.
  tree::OrderTree tree_;
  float highest_seen_ = 0.0F;
};

}  // namespace reprise::select
