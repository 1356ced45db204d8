#pragma once

#include <reprise/selector.hpp>

#include "select/rank_lists.hpp"
#include "select/rank_table.hpp"
#include "select/weight_rule.hpp"
#include "tree/largest_tree.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace reprise::select {

/// `RankBased` in one shard: leaves by buckets of ranks, every leaf of a bucket weighing the same.
/// Buckets and weights are those of the last round of the rule; which leaf is in which bucket is
/// always up to date.
class RankSelector final : public ShardSelector {
 public:
  RankSelector(const WeightRule& initial, std::size_t leaves);
  [[nodiscard]] static std::size_t bytes(std::size_t leaves) noexcept;

  void expect_leaves(std::size_t leaves) noexcept override {
    priorities_.expect_leaves(leaves);
    lists_.expect_leaves(leaves);
  }
  void insert(const ItemRun& run, const SelectorSummary& elsewhere) noexcept override;
  void erase(std::uint32_t first, std::size_t count) noexcept override;
  [[nodiscard]] SelectorSummary summary() const noexcept override;
  /// O(count).
  [[nodiscard]] double sum(std::uint32_t first, std::size_t count) const noexcept override;
  void draw(std::span<double> targets, std::span<std::uint32_t> leaves,
            std::span<float> weights) const noexcept override;
  [[nodiscard]] bool all_positive(std::span<const std::uint32_t> leaves) const noexcept override;
  void update(std::span<const std::uint32_t> leaves,
              std::span<const float> weights) noexcept override;
  void hide(std::span<const std::uint32_t> leaves) noexcept override;
  void show(std::span<const std::uint32_t> leaves,
            std::span<const float> weights) noexcept override;
  /// Raw priorities.
  void store(std::span<const std::uint32_t> leaves,
             std::span<float> stored) const noexcept override;
  [[nodiscard]] SelectorMemory memory() const noexcept override {
    return {0.0, static_cast<double>(highest_seen_)};
  }
  void set_memory(const SelectorMemory& memory) noexcept override {
    highest_seen_ = static_cast<float>(
        std::clamp(memory.second, 0.0, double{std::numeric_limits<float>::max()}));
  }

  /// What a leaf weighs; 0 if it cannot be drawn.
  [[nodiscard]] float weight(std::uint32_t leaf) const noexcept;

  // The steps of a round of the rule, under the shard's lock as well.

  /// Adds what is in each bucket.
  void report(RankTally& tally) const noexcept;
  /// Writes the priorities in the buckets of these numbers, as far as there is room, and returns
  /// how many they are.
  std::size_t collect(std::span<const std::uint16_t> numbers, std::span<float> into) const noexcept;
  /// Takes over buckets and weights.
  void adopt(const RankTable& table) noexcept;

 private:
  void add(std::uint32_t leaf, float priority, std::uint16_t number) noexcept;
  void remove(std::uint32_t leaf) noexcept;
  void bound(float priority, std::uint16_t number) noexcept;
  void move_out(std::uint16_t number) noexcept;
  [[nodiscard]] bool holds(std::uint32_t leaf) const noexcept {
    return lists_.bucket_of(leaf) != RankLists::kNone;
  }
  [[nodiscard]] std::uint16_t number_of(float priority) const noexcept {
    return buckets_.number[buckets_.find(priority)];
  }
  [[nodiscard]] double weight_of_bucket(std::size_t bucket) const noexcept;

  const WeightRule initial_;             ///< Leaves priorities as they are; for initial ones.
  tree::LargestTree<float> priorities_;  ///< Raw; those of hidden leaves too.
  RankLists lists_;                      ///< Of leaves that can be drawn.
  RankBuckets buckets_;
  std::array<float, RankLists::kBuckets> weight_{};  ///< Of one leaf, in the order of the buckets.
  // Bounds of the priorities in a bucket, by number; wider than they need be after one has left.
  std::array<float, RankLists::kBuckets> least_{};
  std::array<float, RankLists::kBuckets> most_{};
  std::uint64_t changes_ = 0;  ///< Leaves that entered or left a bucket.
  float highest_seen_ = 0.0F;

  // Sums are made when they are asked for, and kept until something changes.
  mutable double total_ = 0.0;
  mutable bool total_is_old_ = false;
};

}  // namespace reprise::select
