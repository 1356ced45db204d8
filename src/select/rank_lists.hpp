#pragma once

#include "base/check.hpp"
#include "base/memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace reprise::select {

/// Leaves in numbered buckets, each leaf in at most one. Entering, leaving and access to the i-th
/// leaf of a bucket are O(1); the leaves of a bucket are not sorted.
///
/// The leaves of a bucket lie in blocks of 64. The numbers of these blocks lie in further blocks of
/// 64, the directories, and the bucket's roots are the numbers of its directories:
///
///   roots of bucket -> [directory] -> [leaves 0..63] [leaves 64..127] ...
///
/// All blocks are from one pool, so memory follows the number of leaves in buckets. Externally
/// synchronised. Nothing allocates after construction.
class RankLists {
 public:
  static constexpr std::size_t kBuckets = 2048;
  static constexpr std::uint16_t kNone = 0xFFFF;

  /// Leaves 0 to leaves - 1 are in no bucket. Throws `std::bad_alloc`.
  explicit RankLists(std::size_t leaves)
      : roots_per_bucket_(roots_per_bucket(leaves)),
        counts_(kBuckets),
        roots_(kBuckets * roots_per_bucket_),
        pool_(pool_blocks(leaves) * kBlock),
        entries_(leaves) {}

  /// The bytes of memory that are reserved for this many leaves.
  [[nodiscard]] static std::size_t bytes(std::size_t leaves) noexcept {
    const std::size_t counts_and_roots = kBuckets * (1 + roots_per_bucket(leaves));
    const std::size_t pool = pool_blocks(leaves) * kBlock;
    return (counts_and_roots + pool) * sizeof(std::uint32_t) + leaves * sizeof(std::uint64_t);
  }

  /// Advises the system, before any leaf is added, that the first `leaves` leaves will be.
  void expect_leaves(std::size_t leaves) const noexcept {
    pool_.expect_full(0, leaves);
    entries_.expect_full(0, leaves);
  }

  [[nodiscard]] std::uint32_t count(std::uint16_t bucket) const noexcept { return counts_[bucket]; }
  /// The i-th leaf of a bucket.
  [[nodiscard]] std::uint32_t at(std::uint16_t bucket, std::uint32_t i) const noexcept {
    return *slot(bucket, i);
  }
  /// The address that `at` reads; likely not in a cache.
  [[nodiscard]] const std::uint32_t* slot(std::uint16_t bucket, std::uint32_t i) const noexcept {
    return block(leaf_block(bucket, i)) + i % kBlock;
  }
  /// The bucket of a leaf; kNone if it is in no bucket.
  [[nodiscard]] std::uint16_t bucket_of(std::uint32_t leaf) const noexcept {
    return static_cast<std::uint16_t>((entries_[leaf] & 0xFFFFU) - 1U);
  }

  // Prefetch what `remove` needs: call `prefetch` for many leaves, then `prefetch_slot` for them.
  void prefetch(std::uint32_t leaf) const noexcept { __builtin_prefetch(&entries_[leaf], 1); }
  void prefetch_slot(std::uint32_t leaf) const noexcept {
    if (entries_[leaf] != 0) {
      __builtin_prefetch(slot(bucket_of(leaf), place_of(leaf)), 1);
    }
  }

  /// Appends a leaf, which must be in no bucket, to a bucket.
  void add(std::uint32_t leaf, std::uint16_t bucket) noexcept {
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
  /// Takes a leaf, which must be in a bucket, out of it; the bucket's last leaf takes its place.
  void remove(std::uint32_t leaf) noexcept {
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

 private:
  static constexpr std::uint32_t kBlock = 64;
  static constexpr std::uint32_t kSpan = kBlock * kBlock;  ///< Leaves below one directory.

  [[nodiscard]] static std::size_t roots_per_bucket(std::size_t leaves) noexcept {
    return leaves / kSpan + 1;
  }
  /// How many blocks suffice: the full ones, and for each bucket with leaves a partly filled block
  /// of leaves and a partly filled directory.
  [[nodiscard]] static std::size_t pool_blocks(std::size_t leaves) noexcept {
    return leaves / kBlock + leaves / kSpan + 2 * std::min(leaves, kBuckets);
  }

  [[nodiscard]] std::uint32_t* block(std::uint32_t number) noexcept {
    return &pool_[std::size_t{number} * kBlock];
  }
  [[nodiscard]] const std::uint32_t* block(std::uint32_t number) const noexcept {
    return &pool_[std::size_t{number} * kBlock];
  }
  [[nodiscard]] std::size_t root(std::uint16_t bucket, std::uint32_t i) const noexcept {
    return bucket * roots_per_bucket_ + i / kSpan;
  }
  [[nodiscard]] std::uint32_t leaf_block(std::uint16_t bucket, std::uint32_t i) const noexcept {
    return block(roots_[root(bucket, i)])[i / kBlock % kBlock];
  }
  [[nodiscard]] std::uint32_t place_of(std::uint32_t leaf) const noexcept {
    return static_cast<std::uint32_t>(entries_[leaf] >> 16U);
  }
  [[nodiscard]] static std::uint64_t entry(std::uint16_t bucket, std::uint32_t place) noexcept {
    return std::uint64_t{place} << 16U | (bucket + 1U);
  }
  [[nodiscard]] std::uint32_t take_block() noexcept {
    if (free_ == 0) {
      REPRISE_ASSERT((std::size_t{blocks_used_} + 1) * kBlock <= pool_.size());
      return blocks_used_++;
    }
    const std::uint32_t number = free_ - 1;
    free_ = block(number)[0];
    return number;
  }
  void give_block(std::uint32_t number) noexcept {
    block(number)[0] = free_;
    free_ = number + 1;
  }

  const std::size_t roots_per_bucket_;
  base::LazyArray<std::uint32_t> counts_;
  base::LazyArray<std::uint32_t> roots_;
  base::LazyArray<std::uint32_t> pool_;
  /// For each leaf, its place in its bucket, and in the lower 16 bits the bucket + 1; 0 without
  /// one.
  base::LazyArray<std::uint64_t> entries_;
  std::uint32_t blocks_used_ = 0;  ///< Blocks of the pool that were ever used.
  std::uint32_t free_ = 0;         ///< The first free block + 1; 0 for none.
};

}  // namespace reprise::select
