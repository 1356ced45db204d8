#include "select/rank_lists.hpp"

#include "base/check.hpp"

namespace reprise::select {

RankLists::RankLists(std::size_t leaves)
    : roots_per_bucket_(roots_per_bucket(leaves)),
      counts_(kBuckets),
      roots_(kBuckets * roots_per_bucket_),
      pool_(pool_blocks(leaves) * kBlock),
      entries_(leaves) {}

/// Full blocks, and for each bucket that is not empty one begun block of each kind.
std::size_t RankLists::pool_blocks(std::size_t leaves) noexcept {
  const std::size_t begun = leaves < kBuckets ? leaves : kBuckets;
  return leaves / kBlock + leaves / kSpan + 2 * begun;
}

std::size_t RankLists::bytes(std::size_t leaves) noexcept {
  return (kBuckets + kBuckets * roots_per_bucket(leaves) + pool_blocks(leaves) * kBlock) *
             sizeof(std::uint32_t) +
         leaves * sizeof(std::uint64_t);
}

std::uint32_t RankLists::take_block() noexcept {
  if (free_ == 0) {
    REPRISE_ASSERT((std::size_t{blocks_used_} + 1) * kBlock <= pool_.size());
    return blocks_used_++;
  }
  const std::uint32_t number = free_ - 1;
  free_ = block(number)[0];
  return number;
}

void RankLists::give_block(std::uint32_t number) noexcept {
  block(number)[0] = free_;
  free_ = number + 1;
}

void RankLists::add(std::uint32_t leaf, std::uint16_t bucket) noexcept {
  REPRISE_ASSERT(bucket_of(leaf) == kNone);
  const std::uint32_t i = counts_[bucket]++;
  if (i % kSpan == 0) {
    roots_[root(bucket, i)] = take_block();
  }
  if (i % kBlock == 0) {
    block(roots_[root(bucket, i)])[i / kBlock % kBlock] = take_block();
  }
  block(leaf_block(bucket, i))[i % kBlock] = leaf;
  entries_[leaf] = entry(bucket, i);
}

void RankLists::remove(std::uint32_t leaf) noexcept {
  const std::uint16_t bucket = bucket_of(leaf);
  REPRISE_ASSERT(bucket != kNone);
  const std::uint32_t i = place_of(leaf);
  const std::uint32_t last = --counts_[bucket];
  const std::uint32_t moved = at(bucket, last);
  block(leaf_block(bucket, i))[i % kBlock] = moved;
  entries_[moved] = entry(bucket, i);
  entries_[leaf] = 0;
  if (last % kBlock == 0) {
    give_block(leaf_block(bucket, last));
  }
  if (last % kSpan == 0) {
    give_block(roots_[root(bucket, last)]);
  }
}

}  // namespace reprise::select
