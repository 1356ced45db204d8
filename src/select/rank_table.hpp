#pragma once

#include "base/memory.hpp"
#include "select/rank_lists.hpp"
#include "select/rank_weights.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <new>
#include <span>
#include <utility>

namespace reprise::select {

// A bucket may have as many ranks as there are before it, divided by one of these numbers. Pieces
// and merged buckets are smaller than is allowed, so that they are not cut again soon.
inline constexpr std::uint64_t kMaxDivisor = 16;    ///< A bucket that holds more is cut.
inline constexpr std::uint64_t kCutDivisor = 32;    ///< For a piece of a bucket that is cut.
inline constexpr std::uint64_t kMergeDivisor = 24;  ///< For the result of a merge.

/// The number of items of different priorities that a bucket behind `before` ranks may have. Each
/// of the first ranks has its own bucket.
inline std::uint64_t max_items(std::uint64_t before, std::uint64_t divisor) noexcept {
  return before < RankWeights::kExact ? 1 : before / divisor;
}

/// The next larger float, but never a denormal one, which some threads take for 0.
inline float next_above(float value) noexcept {
  return std::max(std::nextafter(value, std::numeric_limits<float>::infinity()),
                  std::numeric_limits<float>::min());
}

/// Ranges of priorities, from the highest down, that cover all priorities. Bucket i has the
/// priorities from lowest[i] to below lowest[i - 1]. The number of a bucket in `RankLists` does not
/// change when buckets around it are made or merged.
struct RankBuckets {
  /// The place of the bucket for a priority.
  [[nodiscard]] std::size_t find(float priority) const noexcept {
    // Halves the range of buckets without a branch. The range always has the answer, because the
    // last bucket's lowest priority is 0.
    const float* first = lowest.data();
    std::size_t count = size;
    while (count > 1) {
      const std::size_t half = count / 2;
      first += first[half - 1] > priority ? half : 0;
      count -= half;
    }
    return static_cast<std::size_t>(first - lowest.data());
  }

  std::size_t size = 1;
  std::array<float, RankLists::kBuckets> lowest{};  ///< Falling; the last is 0.
  std::array<std::uint16_t, RankLists::kBuckets> number{};
};

/// The buckets of a buffer and the weights of their items.
///
/// A bucket should hold ranks of nearly equal weight: one rank each at the top, then up to a
/// sixteenth of the rank. A bucket that holds more ranks, of different priorities, is cut into
/// pieces of about a thirty-second of the rank; neighbours that hold few are merged. If more items
/// share a priority than a bucket may hold, the priority gets its own bucket. A cut costs time in
/// proportion to the items of the bucket, and happens only after changes or new ranks in proportion
/// to these items.
///
/// Externally synchronised. A round: the caller adds up the items of each bucket of all shards in
/// `cleared_tally`; if there is `room_for_crowded`, it collects priorities there and calls `cut`;
/// then `weigh`; then every shard selector adopts buckets and weights; then `end_round`.
class RankTable {
 public:
  explicit RankTable(double alpha) : weights_(alpha) {
    for (std::size_t number = RankLists::kBuckets - 1; number > 0; --number) {
      free_[free_count_++] = static_cast<std::uint16_t>(number);
    }
  }

  /// The bytes of memory in which the priorities of this many items are sorted.
  [[nodiscard]] static constexpr std::size_t bytes(std::size_t items) noexcept {
    return items * sizeof(float);
  }

  [[nodiscard]] const RankBuckets& buckets() const noexcept { return buckets_; }
  /// One number per bucket, all 0.
  [[nodiscard]] std::span<std::uint64_t> cleared_tally() noexcept {
    std::fill_n(tally_.begin(), buckets_.size, 0);
    return std::span(tally_).first(buckets_.size);
  }

  /// Finds the buckets that are too full, which `touched()` then lists, and returns room for the
  /// priorities of all tallied items. Empty if no bucket is too full, or without memory.
  [[nodiscard]] std::span<float> room_for_crowded() noexcept {
    std::uint64_t items = 0;
    for (std::size_t i = 0; i < buckets_.size; ++i) {
      // A bucket of a single priority cannot be cut.
      const bool single = i > 0 && buckets_.lowest[i - 1] <= next_above(buckets_.lowest[i]);
      crowded_[i] = tally_[i] > max_items(items, kMaxDivisor) && !single && can_cut();
      if (crowded_[i]) {
        touch(buckets_.number[i]);
      }
      items += tally_[i];
    }
    if (touched_count_ == 0) {
      return {};
    }
    if (items > priorities_.size()) {
      try {
        priorities_ = base::LazyArray<float>(std::bit_ceil(items));
        priorities_.expect_full(0, items);
      } catch (const std::bad_alloc&) {
        return {};
      }
    }
    return {priorities_.data(), priorities_.size()};
  }

  /// Cuts the crowded buckets. `priorities` has the priorities of all items in these buckets, and
  /// is sorted in place.
  void cut(std::span<float> priorities) noexcept {
    std::ranges::sort(priorities, std::greater<>());
    changed_ = true;
    next_.size = 0;
    before_ = 0;
    std::span<const float> rest = priorities;
    for (std::size_t i = 0; i < buckets_.size; ++i) {
      const float lowest = buckets_.lowest[i];
      if (!crowded_[i]) {
        push(lowest, buckets_.number[i], tally_[i]);
        continue;
      }
      const auto end = std::partition_point(rest.begin(), rest.end(),
                                            [lowest](float value) { return value >= lowest; });
      const auto items = static_cast<std::size_t>(end - rest.begin());
      cut_bucket(rest.first(items), lowest, buckets_.number[i]);
      rest = rest.subspan(items);
    }
    buckets_ = next_;
    std::copy_n(next_items_.begin(), buckets_.size, tally_.begin());
  }

  /// Merges thin buckets if there are many buckets, then computes all weights.
  void weigh() noexcept {
    if (buckets_.size >= merge_at_ || !can_cut()) {
      merge();
    }
    std::uint64_t before = 0;
    for (std::size_t i = 0; i < buckets_.size; ++i) {
      const std::uint64_t items = tally_[i];
      const double mean = weights_.mean(before, std::max<std::uint64_t>(items, 1));
      // The weight must not round to 0, because every item can be drawn.
      weight_[i] = std::max(static_cast<float>(mean), std::numeric_limits<float>::min());
      before += items;
    }
  }

  /// Weight of one item, by bucket.
  [[nodiscard]] std::span<const float> weights() const noexcept {
    return std::span(weight_).first(buckets_.size);
  }

  /// The numbers of the buckets that lost a part of their range in this round, so that some of
  /// their items may have to move. Empty if no bucket changed.
  [[nodiscard]] std::span<const std::uint16_t> touched() const noexcept {
    return std::span(touched_).first(touched_count_);
  }
  [[nodiscard]] bool changed() const noexcept { return changed_; }
  /// Ends the round, after every shard selector has moved its items.
  void end_round() noexcept {
    for (std::size_t i = 0; i < freed_count_; ++i) {
      free_[free_count_++] = freed_[i];
    }
    freed_count_ = 0;
    touched_count_ = 0;
    changed_ = false;
  }

 private:
  void push(float lowest, std::uint16_t number, std::uint64_t items) noexcept {
    next_.lowest[next_.size] = lowest;
    next_.number[next_.size] = number;
    next_items_[next_.size] = items;
    ++next_.size;
    before_ += items;
  }
  [[nodiscard]] std::uint16_t take_number() noexcept { return free_[--free_count_]; }
  /// Whether enough numbers are free for a step of `cut_bucket`, which takes at most two.
  [[nodiscard]] bool can_cut() const noexcept { return free_count_ > 2; }
  /// Cuts a bucket from the top into pieces, each of whole runs of equal priorities; the last piece
  /// keeps the number. A run that is too long for a piece gets a bucket of its own, with bounds so
  /// tight on both sides that no other priority enters.
  void cut_bucket(std::span<const float> descending, float lowest, std::uint16_t number) noexcept {
    std::size_t begin = 0;  // First item of the piece.
    for (std::size_t i = 0, end = 0; i < descending.size() && can_cut(); i = end) {
      const float value = descending[i];  // The run [i, end) has this priority.
      while (end < descending.size() && descending[end] == value) {
        ++end;
      }
      const std::uint64_t fits = max_items(before_, kCutDivisor);
      if (end - begin <= fits) {
        continue;
      }
      const bool too_long = end - i > max_items(before_ + (i - begin), kCutDivisor);
      if (i > begin) {
        push(too_long ? next_above(value) : descending[i - 1], take_number(), i - begin);
      } else if (too_long &&
                 (next_.size == 0 || next_.lowest[next_.size - 1] > next_above(value))) {
        push(next_above(value), take_number(), /*items=*/0);
      }
      begin = i;
      if (too_long && value > lowest) {
        push(value, take_number(), end - i);
        begin = end;
      }
    }
    push(lowest, number, descending.size() - begin);
  }
  /// Merges each bucket with the one before it if both together hold few enough items.
  void merge() noexcept {
    next_.size = 0;
    before_ = 0;
    for (std::size_t i = 0; i < buckets_.size; ++i) {
      const std::uint64_t items = tally_[i];
      const std::size_t last = next_.size - 1;
      if (i == 0 ||
          next_items_[last] + items > max_items(before_ - next_items_[last], kMergeDivisor)) {
        push(buckets_.lowest[i], buckets_.number[i], items);
        continue;
      }
      changed_ = true;
      std::uint16_t dissolved = buckets_.number[i];
      if (next_items_[last] < items) {
        std::swap(dissolved, next_.number[last]);
      }
      touch(dissolved);
      freed_[freed_count_++] = dissolved;
      next_.lowest[last] = buckets_.lowest[i];
      next_items_[last] += items;
      before_ += items;
    }
    buckets_ = next_;
    std::copy_n(next_items_.begin(), buckets_.size, tally_.begin());
    // The next merge comes only after many more cuts, so that merging costs little per cut.
    merge_at_ = buckets_.size + buckets_.size / 4 + RankWeights::kExact / 2;
  }
  void touch(std::uint16_t number) noexcept { touched_[touched_count_++] = number; }

  const RankWeights weights_;
  RankBuckets buckets_;
  std::array<std::uint64_t, RankLists::kBuckets> tally_{};
  std::array<float, RankLists::kBuckets> weight_{};

  // State of the round.
  std::array<bool, RankLists::kBuckets> crowded_{};
  std::array<std::uint16_t, 2 * RankLists::kBuckets> touched_{};
  std::size_t touched_count_ = 0;
  /// The numbers in `touched_` whose buckets were merged into others.
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
};

}  // namespace reprise::select
