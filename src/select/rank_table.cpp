#include "select/rank_table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <new>
#include <numeric>
#include <utility>

namespace reprise::select {
namespace {

/// Each rank below this one has its own bucket.
constexpr std::uint64_t kSingle = RankWeights::kExact;

// Most items of different priorities in a bucket that begins after so many ranks.
std::uint64_t at_most(std::uint64_t before) noexcept {
  return before < kSingle ? 1 : before / 16;
}
std::uint64_t when_cut(std::uint64_t before) noexcept {
  return before < kSingle ? 1 : before / 32;
}
std::uint64_t when_merged(std::uint64_t before) noexcept {
  return before < kSingle ? 1 : before / 24;
}

/// From this many priorities on, sorting by digits is faster.
constexpr std::size_t kManyPriorities = 4096;
constexpr unsigned kDigitBits = 8;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;

/// Sorts by one digit of the bits, highest first. Floats of at least 0 compare as their bits.
void sort_by_digit(std::span<const float> from, float* to, unsigned shift) noexcept {
  const auto digit = [shift](float value) {
    return kDigits - 1 - (std::bit_cast<std::uint32_t>(value) >> shift) % kDigits;
  };
  std::array<std::size_t, kDigits> next{};
  for (const float value : from) {
    ++next[digit(value)];
  }
  std::exclusive_scan(next.begin(), next.end(), next.begin(), std::size_t{0});
  for (const float value : from) {
    to[next[digit(value)]++] = value;
  }
}

void sort_falling(std::span<float> values, std::span<float> scratch) noexcept {
  if (values.size() < kManyPriorities) {
    std::sort(values.begin(), values.end(), std::greater<>());
    return;
  }
  for (unsigned shift = 0; shift < 32; shift += 2 * kDigitBits) {
    sort_by_digit(values, scratch.data(), shift);
    sort_by_digit(scratch.first(values.size()), values.data(), shift + kDigitBits);
  }
}

float next_above(float value) noexcept {
  return std::nextafter(value, std::numeric_limits<float>::infinity());
}

}  // namespace

std::size_t RankBuckets::find(float priority) const noexcept {
  // Halves the range without a branch. The answer is always in the range, because the last lowest
  // is 0.
  const float* first = lowest.data();
  std::size_t left = size;
  while (left > 1) {
    const std::size_t half = left / 2;
    first += first[half - 1] > priority ? half : 0;
    left -= half;
  }
  return static_cast<std::size_t>(first - lowest.data());
}

void RankBuckets::assign(const RankBuckets& other) noexcept {
  size = other.size;
  std::copy_n(other.lowest.begin(), size, lowest.begin());
  std::copy_n(other.number.begin(), size, number.begin());
}

void RankTally::clear(std::size_t buckets) noexcept {
  changes = 0;
  std::fill_n(items.begin(), buckets, 0);
  std::fill_n(least.begin(), buckets, std::numeric_limits<float>::infinity());
  std::fill_n(most.begin(), buckets, 0.0F);
}

RankTable::RankTable(double alpha) : weights_(alpha) {
  for (std::size_t number = RankLists::kBuckets - 1; number > 0; --number) {
    free_[free_count_++] = static_cast<std::uint16_t>(number);
  }
}

bool RankTable::find_crowded() noexcept {
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < buckets_.size; ++i) {
    const std::uint64_t items = tally_.items[i];
    crowded_[i] = items > at_most(before) && tally_.least[i] < tally_.most[i] && free_count_ > 2;
    if (crowded_[i]) {
      touch(buckets_.number[i]);
    }
    before += items;
  }
  return touched_count_ != 0;
}

std::span<float> RankTable::room() noexcept {
  const std::size_t items =
      std::accumulate(tally_.items.begin(), tally_.items.begin() + buckets_.size, std::size_t{0});
  if (items > priorities_.size()) {
    try {
      const std::size_t more = std::bit_ceil(items);
      base::LazyArray<float> priorities(more);
      scratch_ = base::LazyArray<float>(more);
      priorities.expect_full(0, items);
      scratch_.expect_full(0, items);
      priorities_ = std::move(priorities);
    } catch (const std::bad_alloc&) {
      return {};
    }
  }
  return {priorities_.data(), priorities_.size()};
}

void RankTable::push(float lowest, std::uint16_t number, std::uint64_t items) noexcept {
  next_.lowest[next_.size] = lowest;
  next_.number[next_.size] = number;
  next_items_[next_.size] = items;
  ++next_.size;
  before_ += items;
}

void RankTable::cut(std::span<float> priorities) noexcept {
  sort_falling(priorities, {scratch_.data(), scratch_.size()});
  changed_ = true;
  next_.size = 0;
  before_ = 0;
  std::span<const float> left = priorities;
  for (std::size_t i = 0; i < buckets_.size; ++i) {
    const float lowest = buckets_.lowest[i];
    if (!crowded_[i]) {
      push(lowest, buckets_.number[i], tally_.items[i]);
      continue;
    }
    const auto end = std::partition_point(left.begin(), left.end(),
                                          [lowest](float value) { return value >= lowest; });
    const auto items = static_cast<std::size_t>(end - left.begin());
    cut_bucket(left.first(items), lowest, buckets_.number[i]);
    left = left.subspan(items);
  }
  buckets_.assign(next_);
  std::copy_n(next_items_.begin(), buckets_.size, tally_.items.begin());
}

/// Cuts a bucket from the top into pieces of whole runs of equal priorities; the last piece keeps
/// the number. A run too long for a piece gets a bucket with tight bounds on both sides, so that no
/// other priority enters.
void RankTable::cut_bucket(std::span<const float> falling, float lowest,
                           std::uint16_t number) noexcept {
  std::size_t begin = 0;  // First item of the piece.
  for (std::size_t i = 0, end = 0; i < falling.size() && free_count_ > 2; i = end) {
    const float value = falling[i];
    while (end < falling.size() && falling[end] == value) {
      ++end;
    }
    const std::uint64_t fits = when_cut(before_);
    if (end - begin <= fits) {
      continue;
    }
    const bool many = end - i > when_cut(before_ + (i - begin));
    if (i > begin) {
      push(many ? next_above(value) : falling[i - 1], take_number(), i - begin);
    } else if (many && (next_.size == 0 || next_.lowest[next_.size - 1] > next_above(value))) {
      push(next_above(value), take_number(), 0);
    }
    begin = i;
    if (many && value > lowest) {
      push(value, take_number(), end - i);
      begin = end;
    }
  }
  push(lowest, number, falling.size() - begin);
}

void RankTable::merge() noexcept {
  next_.size = 0;
  before_ = 0;
  for (std::size_t i = 0; i < buckets_.size; ++i) {
    const std::uint64_t items = tally_.items[i];
    const std::size_t last = next_.size - 1;
    if (i == 0 || next_items_[last] + items > when_merged(before_ - next_items_[last])) {
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
  buckets_.assign(next_);
  std::copy_n(next_items_.begin(), buckets_.size, tally_.items.begin());
  merge_at_ = buckets_.size + buckets_.size / 4 + RankWeights::kExact / 2;
}

void RankTable::weigh() noexcept {
  if (buckets_.size >= merge_at_ || free_count_ <= 2) {
    merge();
  }
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < buckets_.size; ++i) {
    const std::uint64_t items = tally_.items[i];
    const double mean = weights_.mean(before, std::max<std::uint64_t>(items, 1));
    // The weight must not round to 0, because every item can be drawn.
    weight_[i] = std::max(static_cast<float>(mean), std::numeric_limits<float>::min());
    before += items;
  }
}

void RankTable::end_round() noexcept {
  for (std::size_t i = 0; i < freed_count_; ++i) {
    free_[free_count_++] = freed_[i];
  }
  freed_count_ = 0;
  touched_count_ = 0;
  changed_ = false;
}

}  // namespace reprise::select
