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

/// `RankBased` in one shard: leaves in buckets of ranks, all leaves of a bucket with the same
/// weight. Buckets and weights are those of the last round of the rule; the bucket of each leaf is
/// always up to date.
class RankSelector final : public ShardSelector {
 public:
  RankSelector(const WeightRule& initial, std::size_t leaves);
  [[nodiscard]] static std::size_t bytes(std::size_t leaves) noexcept;

  void expect_leaves(std::size_t leaves) noexcept override {
    priorities_.expect_leaves(leaves);
    lists_.expect_leaves(leaves);
  }
  void insert(const ItemRun& run, const SelectorSummary& other_shards) noexcept override;
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
  /// Stores raw priorities.
  void store(std::span<const std::uint32_t> leaves,
             std::span<float> stored) const noexcept override;
  [[nodiscard]] SelectorMemory memory() const noexcept override {
    return {0.0, static_cast<double>(highest_seen_)};
  }
  void set_memory(const SelectorMemory& memory) noexcept override {
    highest_seen_ = static_cast<float>(
        std::clamp(memory.second, 0.0, double{std::numeric_limits<float>::max()}));
  }

  /// The weight of a leaf; 0 if it cannot be drawn.
  [[nodiscard]] float weight(std::uint32_t leaf) const noexcept;

  // The steps of a round of the rule, also under the shard's lock.

  /// Adds the items of each bucket to the tally.
  void report(RankTally& tally) const noexcept;
  /// Writes the priorities in the buckets of these numbers, as far as there is room, and returns
  /// their count.
  std::size_t collect(std::span<const std::uint16_t> numbers, std::span<float> into) const noexcept;
  /// Copies the buckets and weights of the table.
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

  /// For initial priorities; it leaves the others as they are.
  const WeightRule initial_;
  tree::LargestTree<float> priorities_;  ///< Raw priorities, also of hidden leaves.
  RankLists lists_;                      ///< The leaves that can be drawn.
  RankBuckets buckets_;
  std::array<float, RankLists::kBuckets> weight_{};  ///< Weight of one leaf, by bucket.
  // Bounds of the priorities in a bucket, by number; too wide after a leaf has left.
  std::array<float, RankLists::kBuckets> least_{};
  std::array<float, RankLists::kBuckets> most_{};
  std::uint64_t changes_ = 0;  ///< Leaves that entered or left a bucket.
  float highest_seen_ = 0.0F;

  // Sums are computed on demand, and kept until something changes.
  mutable double total_ = 0.0;
  mutable bool total_is_old_ = false;
};

}  // namespace reprise::select
