#pragma once

#include "base/memory.hpp"
#include "select/rank_lists.hpp"
#include "select/rank_weights.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::select {

/// Ranges of priorities, from the highest down, that cover all priorities. Bucket i has the
/// priorities from lowest[i] up to those of bucket i - 1. The number of a bucket in `RankLists`
/// does not change when buckets around it are made or merged.
struct RankBuckets {
  /// The place of the bucket for a priority.
  [[nodiscard]] std::size_t find(float priority) const noexcept;
  /// Copies the part in use.
  void assign(const RankBuckets& other) noexcept;

  std::size_t size = 1;
  std::array<float, RankLists::kBuckets> lowest{};  ///< Falling; the last is 0.
  std::array<std::uint16_t, RankLists::kBuckets> number{};
};

/// Items, and bounds of their priorities, in each bucket of all shards.
struct RankTally {
  void clear(std::size_t buckets) noexcept;

  std::uint64_t changes = 0;  ///< Changes of all shards, ever.
  std::array<std::uint64_t, RankLists::kBuckets> items{};
  /// Bounds of the priorities; they may be too wide.
  std::array<float, RankLists::kBuckets> least{};
  std::array<float, RankLists::kBuckets> most{};
};

/// The buckets of a buffer and the weights of their items.
///
/// A bucket should hold ranks of nearly equal weight: one rank each at the top, then up to a
/// sixteenth of the rank. A bucket that holds more, of different priorities, is cut into pieces of
/// about a thirty-second; neighbours that hold little are merged. A priority that more items share
/// than a bucket may hold gets its own bucket. A cut costs time in proportion to the items of the
/// bucket, and happens only after changes or new ranks in proportion to them.
///
/// Externally synchronised. A round: the caller fills `tally`; if `find_crowded` finds crowded
/// buckets, it collects their priorities and calls `cut`; then `weigh`; then every shard selector
/// adopts buckets and weights; then `end_round`.
class RankTable {
 public:
  explicit RankTable(double alpha);

  /// Bytes for sorting the priorities of so many items.
  [[nodiscard]] static constexpr std::size_t bytes(std::size_t items) noexcept {
    return 2 * items * sizeof(float);
  }

  [[nodiscard]] const RankBuckets& buckets() const noexcept { return buckets_; }
  [[nodiscard]] RankTally& tally() noexcept { return tally_; }

  /// True if a bucket is too full; `touched()` then lists the full ones.
  bool find_crowded() noexcept;

  /// Room for the priorities of all tallied items, kept from round to round. Empty if there is no
  /// memory.
  std::span<float> room() noexcept;

  /// Cuts the crowded buckets. `priorities` are those of their items; they are sorted in place.
  void cut(std::span<float> priorities) noexcept;

  /// Merges thin buckets if there are many, then computes all weights.
  void weigh() noexcept;

  /// Weight of one item, by bucket.
  [[nodiscard]] std::span<const float> weights() const noexcept {
    return std::span(weight_).first(buckets_.size);
  }

  /// Numbers of buckets that lost a part of their range in this round, so that items may have to
  /// move; none if no bucket changed.
  [[nodiscard]] std::span<const std::uint16_t> touched() const noexcept {
    return std::span(touched_).first(touched_count_);
  }
  [[nodiscard]] bool changed() const noexcept { return changed_; }
  /// Ends the round, after every shard selector has moved its items.
  void end_round() noexcept;

 private:
  void push(float lowest, std::uint16_t number, std::uint64_t items) noexcept;
  [[nodiscard]] std::uint16_t take_number() noexcept { return free_[--free_count_]; }
  void cut_bucket(std::span<const float> falling, float lowest, std::uint16_t number) noexcept;
  void merge() noexcept;
  void touch(std::uint16_t number) noexcept { touched_[touched_count_++] = number; }

  const RankWeights weights_;
  RankBuckets buckets_;
  RankTally tally_;
  std::array<float, RankLists::kBuckets> weight_{};

  // State of the round.
  std::array<bool, RankLists::kBuckets> crowded_{};
  std::array<std::uint16_t, 2 * RankLists::kBuckets> touched_{};
  std::size_t touched_count_ = 0;
  /// Numbers among the touched whose buckets were merged away.
  std::array<std::uint16_t, RankLists::kBuckets> freed_{};
  std::size_t freed_count_ = 0;
  bool changed_ = false;

  // The next buckets, while they are made.
  RankBuckets next_;
  std::array<std::uint64_t, RankLists::kBuckets> next_items_{};
  std::uint64_t before_ = 0;  ///< Items in `next_`.

  std::array<std::uint16_t, RankLists::kBuckets> free_{};  ///< Numbers that no bucket has.
  std::size_t free_count_ = 0;
  std::size_t merge_at_ = RankWeights::kExact;  ///< Buckets are merged once there are this many.

  base::LazyArray<float> priorities_;
  base::LazyArray<float> scratch_;  ///< Scratch of the sort.
};

}  // namespace reprise::select
