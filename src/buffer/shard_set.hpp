#pragma once

#include <reprise/selector.hpp>

#include "base/divider.hpp"
#include "base/mutex.hpp"
#include "base/sync.hpp"
#include "buffer/plan.hpp"
#include "limiter/wait.hpp"
#include "shard/budget.hpp"
#include "shard/shard.hpp"
#include "storage/chunk_store.hpp"

#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace reprise::buffer {

/// All shards of a buffer: finds the shard of a chunk or slot, counts over all shards, and takes
/// their locks. Before a lock is released, the shard's hints have to be published, and writers that
/// wait for a chunk have to be served; the destructors of `Lock` and `LockAll` do both. Any thread.
class ShardSet {
 public:
  using Rules = std::span<const std::unique_ptr<SelectorRule>>;

  /// Throws std::system_error if the disk has no room for the chunks that the capacity usually
  /// takes.
  ShardSet(const Plan& plan, bool item_every_step, storage::ChunkStore& store, Rules rules,
           std::uint32_t tag);

  [[nodiscard]] std::size_t size() const noexcept { return shards_.size(); }
  [[nodiscard]] shard::Shard& operator[](std::size_t index) noexcept { return *shards_[index]; }
  [[nodiscard]] const shard::Shard& operator[](std::size_t index) const noexcept {
    return *shards_[index];
  }
  [[nodiscard]] std::size_t index_of_chunk(std::uint32_t chunk) const noexcept {
    return chunks_per_shard_.quotient(chunk);
  }
  [[nodiscard]] std::uint32_t index_of_slot(std::uint32_t slot) const noexcept {
    return slots_per_shard_.quotient(slot);
  }
  [[nodiscard]] std::uint32_t chunk_rows() const noexcept { return chunk_rows_; }
  /// Rows of all chunks.
  [[nodiscard]] std::size_t slots() const noexcept { return size() * slots_per_shard_.divisor(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return budget_.capacity(); }
  [[nodiscard]] shard::Shard& of_chunk(std::uint32_t chunk) noexcept {
    return *shards_[index_of_chunk(chunk)];
  }

  // These counts take no lock: each shard counts as of about the last release of its lock. Steps
  // that are not yet ingested are missing.

  /// Counts items that can be drawn.
  [[nodiscard]] std::size_t items() const noexcept;
  /// Counts resident steps, at most the capacity.
  [[nodiscard]] std::size_t steps() const noexcept { return budget_.visible_steps(); }
  /// Counts chunks with steps.
  [[nodiscard]] std::size_t chunks_with_steps() const noexcept;
  /// With a limit of draws, counts the draws that all items still allow.
  [[nodiscard]] std::size_t draws_left() const noexcept;
  /// The most draws of an item; 0: no limit.
  [[nodiscard]] std::size_t draws_per_item() const noexcept { return draws_per_item_; }
  [[nodiscard]] bool draws_limited() const noexcept { return draws_per_item_ != 0; }
  /// Whether items that cannot be drawn may stay (`shard::Extras::may_exhaust`).
  [[nodiscard]] bool may_exhaust() const noexcept { return may_exhaust_; }
  /// Counts outdated items that are not yet evicted.
  [[nodiscard]] std::size_t outdated() const noexcept;

  /// Holds one shard's lock. While a sampler or an update waits for the lock, helping writers give
  /// way.
  class Lock {
   public:
    Lock(ShardSet& set, std::size_t index) noexcept REPRISE_UNCHECKED;
    /// Takes over the lock, which this thread already holds.
    Lock(ShardSet& set, std::size_t index, std::adopt_lock_t /*held*/) noexcept
        : set_(set), shard_(set[index]) {}
    ~Lock() REPRISE_UNCHECKED;
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

    [[nodiscard]] shard::LockedShard& operator*() const noexcept REPRISE_UNCHECKED {
      return shard_.locked();
    }
    [[nodiscard]] shard::LockedShard* operator->() const noexcept { return &**this; }
    /// Ingests a bounded number of chunks and evicts. Returns whether chunks were left to ingest.
    /// The next stop of the data path is `LockedShard::ingest`.
    bool ingest() noexcept;

   private:
    ShardSet& set_;
    shard::Shard& shard_;
    bool ingested_ = false;
  };

  /// Holds every shard's lock, taken by ascending index. No other code ever holds two of them, so
  /// there is no deadlock.
  ///
  /// The hints of all shards are published before any lock is released. So a thread that takes one
  /// of the locks afterwards reads hints that include every change made here.
  class LockAll {
   public:
    explicit LockAll(ShardSet& set) noexcept REPRISE_UNCHECKED;
    ~LockAll() REPRISE_UNCHECKED;
    LockAll(const LockAll&) = delete;
    LockAll& operator=(const LockAll&) = delete;

    [[nodiscard]] std::size_t size() const noexcept { return set_.size(); }
    [[nodiscard]] shard::LockedShard& operator[](std::size_t index) const noexcept
        REPRISE_UNCHECKED {
      return set_[index].locked();
    }

   private:
    ShardSet& set_;
  };

  /// Calls work(s, shard) under the lock of each shard s of which wanted(s) holds. Shards whose
  /// lock is free come first, so threads that visit all shards at once do not queue behind each
  /// other.
  template <class Wanted, class Work>
  void visit(const Wanted& wanted, const Work& work) REPRISE_UNCHECKED {
    std::bitset<kMaxShards> busy;
    for (std::size_t s = 0; s < size(); ++s) {
      if (!wanted(s)) {
        continue;
      }
      if (shards_[s]->mutex.try_lock()) {
        work(s, *Lock(*this, s, std::adopt_lock));
      } else {
        busy.set(s);
      }
    }
    for (std::size_t s = 0; busy.any() && s < size(); ++s) {
      if (busy.test(s)) {
        work(s, *Lock(*this, s));
      }
    }
  }

  /// Ingests the chunks on the doorbell lists (chunks with new rows), a bounded number per shard.
  /// For samplers and updates.
  void ingest_pending() noexcept;
  /// Ingests until every doorbell list was seen empty, in a way that suffices for the last look of
  /// a thread that is about to sleep (I11).
  void drain() noexcept;
  /// Makes room for a writer: ingests and evicts in one shard if its lock is free, and in the
  /// others if the buffer is still over its capacity. It never waits for a lock, and yields to
  /// waiting samplers a few times. Returns whether nothing is left to ingest in that shard.
  bool help_ingest(std::size_t index) noexcept;
  /// Tracks fresh items from now on (`SamplerOptions::fresh`). Throws std::bad_alloc.
  void track_fresh();
  /// Once this call has returned, items below this version of the policy are not drawn any more.
  void raise_oldest(std::int64_t version) noexcept;
  /// Refreshes a selector before a draw, if its weights depend on the items of all shards.
  void refresh(std::size_t selector) noexcept;

  /// Call it only before any other thread has the buffer. `images`: one per shard.
  void restore(std::span<const shard::ShardImage> images) noexcept;

  // Statistics.

  /// The counters of all shards, added up.
  [[nodiscard]] shard::Counters totals() noexcept;
  /// Waits of writers for a chunk. On a cache line of its own, because every release of a lock
  /// reads it.
  alignas(base::kCacheLine) limiter::WaitMeter writers_for_chunk;
  /// How often writers ingested. Relaxed: a statistic.
  alignas(base::kCacheLine) std::atomic<std::uint64_t> writer_ingests{0};

 private:
  using Summaries = std::array<SelectorSummary, kMaxSelectors>;
  [[nodiscard]] Summaries summarise() const noexcept;
  template <class Count>
  [[nodiscard]] std::size_t sum(const Count& count) const noexcept;
  void serve_writers(shard::LockedShard& shard) noexcept;
  bool ingest_one(std::size_t index) noexcept;
  template <class EvictIn>
  void make_room(const EvictIn& evict_in) noexcept;
  template <class Work>
  void help_one(std::size_t index, const Work& work) noexcept;

  alignas(base::kCacheLine) const Rules rules_;
  const bool items_are_steps_;  ///< Every step begins an item, which can always be drawn.
  const std::size_t draws_per_item_;
  const bool may_exhaust_;
  const std::uint32_t chunk_rows_;
  const base::Divider chunks_per_shard_;
  const base::Divider slots_per_shard_;
  shard::Budget budget_;
  std::vector<std::unique_ptr<shard::Shard>> shards_;
};

}  // namespace reprise::buffer
