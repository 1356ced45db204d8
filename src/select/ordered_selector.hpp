#pragma once

#include <reprise/selector.hpp>

#include "select/weight_rule.hpp"
#include "tree/key_tree.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace reprise::select {

/// The item that comes first.
enum class First : std::uint8_t { Oldest, Youngest, Highest, Lowest };

/// The items of one shard of a selector that takes the first item instead of drawing by weight.
/// Keys are comparable between shards, and the largest comes first.
class OrderedSelector final : public ShardSelector {
 public:
  OrderedSelector(First first, const WeightRule& rule, std::size_t leaves)
      : first_(first), rule_(rule), tree_(leaves) {}

  void expect_leaves(std::size_t leaves) noexcept override { tree_.expect_leaves(leaves); }
  void insert(const ItemRun& run, const SelectorSummary& other_shards) noexcept override;
  void erase(std::uint32_t first, std::size_t count) noexcept override {
    tree_.clear_run(first, count);
  }
  /// The total is the number of items.
  [[nodiscard]] SelectorSummary summary() const noexcept override;
  /// Number of items of the run; for heaps the sum of their priorities. O(run).
  [[nodiscard]] double sum(std::uint32_t first, std::size_t count) const noexcept override;
  /// Never called, because nothing is drawn by weight here.
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

  [[nodiscard]] std::int64_t first_key() const noexcept override { return tree_.best(); }
  /// Only `Oldest` tells.
  [[nodiscard]] bool first_is_before(std::uint64_t number) const noexcept override;
  std::uint32_t take_first() noexcept override;

 private:
  [[nodiscard]] bool by_priority() const noexcept {
    return first_ == First::Highest || first_ == First::Lowest;
  }
  [[nodiscard]] float priority_of(std::int64_t key) const noexcept;
  [[nodiscard]] std::int64_t key_of(float priority, std::uint32_t leaf) const noexcept;

  const First first_;
  const WeightRule rule_;  ///< For initial priorities; it leaves the others as they are.
  tree::KeyTree tree_;
  float highest_seen_ = 0.0F;
};

}  // namespace reprise::select
