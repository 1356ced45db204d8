#pragma once

#include "base/memory.hpp"
#include "select/rank_lists.hpp"
#include "select/rank_weights.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::select {

/// Ranges of priorities, from the highest down; they cover all. Bucket i has the priorities from
/// lowest[i] up to those of bucket i - 1. Its number in `RankLists` stays while buckets around it
/// come and go.
struct RankBuckets {
  /// The place of the bucket for a priority.
  [[nodiscard]] std::size_t find(float priority) const noexcept;
  /// Copies what is in use.
  void assign(const RankBuckets& other) noexcept;

  std::size_t size = 1;
  std::array<float, RankLists::kBuckets> lowest{};  ///< Falling; the last is 0.
  std::array<std::uint16_t, RankLists::kBuckets> number{};
};

/// What the shards have in each bucket, in the order of the buckets.
struct RankTally {
  void clear(std::size_t buckets) noexcept;

  std::uint64_t changes = 0;  ///< Ever.
  std::array<std::uint64_t, RankLists::kBuckets> items{};
  std::array<float, RankLists::kBuckets> least{};  ///< Bounds of the priorities, not always sharp.
  std::array<float, RankLists::kBuckets> most{};
};

/// The buckets of a buffer and what their items weigh.
///
/// Buckets are to hold ranks that weigh nearly the same: one rank each at the top, then up to a
/// sixteenth of the rank. One that holds more, of different priorities, is cut anew into about a
/// thirty-second; neighbours that hold little become one. A priority that more items share than a
/// bucket may hold gets a bucket of its own. So a change of priorities is paid for where it is: a
/// bucket is cut, at a cost in proportion to its items, only after a number of changes or new ranks
/// in proportion to them.
///
/// Externally synchronised. A round: `tally` is filled; if `find_crowded` finds some, their
/// priorities are brought and `cut`; `weigh`; every half takes buckets and weights over;
/// `end_round`.
class RankTable {
 public:
  explicit RankTable(double alpha);

  /// Memory that the priorities of so many items take when they are cut.
  [[nodiscard]] static constexpr std::size_t bytes(std::size_t items) noexcept {
    return 2 * items * sizeof(float);
  }

  [[nodiscard]] const RankBuckets& buckets() const noexcept { return buckets_; }
  [[nodiscard]] RankTally& tally() noexcept { return tally_; }

  /// Whether buckets are to be cut: those that are touched then.
  bool find_crowded() noexcept;

  /// Room for the priorities of as many items as were tallied, kept from round to round. Empty if
  /// there is no memory.
  std::span<float> room() noexcept;

  /// Cuts the crowded buckets, of whose items these are the priorities. They are sorted.
  void cut(std::span<float> priorities) noexcept;

  /// Merges thin buckets, if there are many; then weighs all.
  void weigh() noexcept;

  /// Of one item, in the order of the buckets.
  [[nodiscard]] std::span<const float> weights() const noexcept {
    return std::span(weight_).first(buckets_.size);
  }

  /// Numbers whose items may belong elsewhere since the round began; none if no bucket changed.
  [[nodiscard]] std::span<const std::uint16_t> touched() const noexcept {
    return std::span(touched_).first(touched_count_);
  }
  [[nodiscard]] bool changed() const noexcept { return changed_; }
  /// Ends the round, after every half has moved its items.
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

  // Of the round.
  std::array<bool, RankLists::kBuckets> crowded_{};
  std::array<std::uint16_t, 2 * RankLists::kBuckets> touched_{};
  std::size_t touched_count_ = 0;
  std::array<std::uint16_t, RankLists::kBuckets> freed_{};  ///< Of the touched.
  std::size_t freed_count_ = 0;
  bool changed_ = false;

  // Buckets as they are cut.
  RankBuckets next_;
  std::array<std::uint64_t, RankLists::kBuckets> next_items_{};
  std::uint64_t before_ = 0;  ///< Items in next_.

  std::array<std::uint16_t, RankLists::kBuckets> free_{};  ///< Numbers of no bucket.
  std::size_t free_count_ = 0;
  std::size_t merge_at_ = RankWeights::kExact;  ///< So many buckets.

  base::LazyArray<float> priorities_;
  base::LazyArray<float> scratch_;  ///< Of the sort.
};

}  // namespace reprise::select
