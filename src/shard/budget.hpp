#pragma once

#include "base/sync.hpp"
#include "storage/doorbell.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace reprise::shard {

/// The most shards of one buffer; bounds arrays.
inline constexpr std::size_t kMaxShards = 256;

/// Counts the resident steps of all shards against the capacity of the buffer, and tells which
/// shards have the oldest chunks. Any thread.
///
/// A shard claims the excess before it evicts, so that two shards never evict for the same step and
/// a full buffer holds exactly its capacity. Every access is relaxed, because the counts publish no
/// other data. Each change is made under the lock of the shard whose steps it counts, so a thread
/// that holds all locks reads exact counts.
class Budget {
 public:
  explicit Budget(std::size_t capacity) noexcept : capacity_(capacity) {}

  /// Adds a shard, and returns its number in the budget. Call it only while the buffer is made.
  std::uint32_t join() noexcept {
    publish_oldest(static_cast<std::uint32_t>(shards_), storage::kNoTurn);
    return static_cast<std::uint32_t>(shards_++);
  }

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  void add(std::size_t steps) noexcept { resident_.fetch_add(steps, base::Order::Relaxed); }

  /// Subtracts steps that were deselected without a claim.
  void remove(std::size_t steps) noexcept { resident_.fetch_sub(steps, base::Order::Relaxed); }

  /// Subtracts the steps above the capacity, at most `most` of them, and returns their number. The
  /// caller has to deselect that many.
  [[nodiscard]] std::size_t claim_excess(std::size_t most) noexcept {
    std::size_t resident = resident_.load(base::Order::Relaxed);
    std::size_t claim = 0;
    do {
      claim = resident > capacity_ ? std::min(resident - capacity_, most) : 0;
    } while (claim != 0 && !resident_.compare_exchange(resident, resident - claim,
                                                       base::Order::Relaxed, base::Order::Relaxed));
    return claim;
  }

  /// How many steps are resident. They may exceed the capacity between the moment at which a thread
  /// counts ingested steps and its evictions.
  [[nodiscard]] std::size_t resident() const noexcept {
    return resident_.load(base::Order::Relaxed);
  }
  /// The number of steps that users see: without the steps above the capacity, which are about to
  /// be evicted, and without those whose item was removed. Stale counts may make it a step wrong.
  [[nodiscard]] std::size_t visible_steps() const noexcept {
    const std::size_t removed = removed_.load(base::Order::Relaxed);
    return std::max(std::min(resident(), capacity_), removed) - removed;
  }
  /// Counts resident steps whose item was removed; negative for such steps that were evicted.
  void add_removed(std::ptrdiff_t items) noexcept {
    removed_.fetch_add(static_cast<std::size_t>(items), base::Order::Relaxed);
  }
  [[nodiscard]] bool exceeded(std::size_t by = 0) const noexcept {
    return resident() > capacity_ + by;
  }
  /// The excess, in steps, beyond which a shard ingests nothing until other shards have evicted. It
  /// bounds the memory beyond the capacity, and admits at least one chunk.
  [[nodiscard]] std::size_t max_excess(std::size_t chunk_rows) const noexcept {
    return std::max(chunk_rows, capacity_ / 16);
  }

  // The eviction order over all shards: chunks by their turns.

  /// The turn of a chunk, its place in the eviction order, when its writer rings. `turn`: the
  /// chunk's turn at its ring before, or `storage::kNoTurn` if it has not rung yet. Only the first
  /// ring of a chunk raises the counter, so a turn tells how many chunks of the buffer began before
  /// the ring.
  [[nodiscard]] std::uint64_t turn_after(std::uint64_t turn) noexcept {
    return turn == storage::kNoTurn ? next_turn_.fetch_add(1, base::Order::Relaxed)
                                    : next_turn_.load(base::Order::Relaxed);
  }
  /// Makes later turns larger than this one. Call it before any other thread has the buffer.
  void skip_turn(std::uint64_t turn) noexcept {
    next_turn_.store(std::max(next_turn_.load(base::Order::Relaxed), turn + 1),
                     base::Order::Relaxed);
  }
  /// Sets the turn of a shard's oldest chunk; `storage::kNoTurn` if the shard has none. Called at
  /// each change, with the shard's lock held.
  void publish_oldest(std::uint32_t shard, std::uint64_t turn) noexcept {
    oldest_[shard].store(turn, base::Order::Relaxed);
  }
  /// Whether a chunk of this shard and this turn is among the oldest of the buffer: no chunk of
  /// another shard is older by more than one chunk per shard. With this slack a shard that fills up
  /// can evict its own chunks, without another shard's lock, as long as all shards fill alike. True
  /// of the oldest chunk of the buffer. A stale turn of another shard is harmless: that shard
  /// evicts instead, or the next call sees the new turn.
  [[nodiscard]] bool among_oldest(std::uint32_t shard, std::uint64_t turn) const noexcept {
    for (std::uint32_t s = 0; s < shards_ && turn > shards_; ++s) {
      if (s != shard && oldest_[s].load(base::Order::Relaxed) < turn - shards_) {
        return false;
      }
    }
    return true;
  }

  // The following counts are for exhausted items: they tell which shard has to evict before any
  // item leaves that may be drawn again. Each shard adds its part under its lock. Stale counts are
  // harmless: at worst a shard evicts that has fewer exhausted items than another one.
  void add_exhausted(std::ptrdiff_t items) noexcept {
    exhausted_.fetch_add(static_cast<std::size_t>(items), base::Order::Relaxed);
  }
  [[nodiscard]] std::size_t exhausted() const noexcept {
    return exhausted_.load(base::Order::Relaxed);
  }
  /// Counts one more shard that has a front to evict (`DrawLimit`), or one less.
  void publish_front(bool has_front) noexcept {
    shards_with_fronts_.fetch_add(has_front ? 1U : std::size_t{0} - 1U, base::Order::Relaxed);
  }
  [[nodiscard]] std::size_t shards_with_fronts() const noexcept {
    return shards_with_fronts_.load(base::Order::Relaxed);
  }

 private:
  const std::size_t capacity_;
  alignas(base::kCacheLine) base::StdSync::Atomic<std::size_t> resident_{0};
  base::StdSync::Atomic<std::size_t> removed_{0};
  base::StdSync::Atomic<std::size_t> exhausted_{0};
  base::StdSync::Atomic<std::size_t> shards_with_fronts_{0};
  std::size_t shards_ = 0;
  alignas(base::kCacheLine) base::StdSync::Atomic<std::uint64_t> next_turn_{0};
  std::array<base::StdSync::Atomic<std::uint64_t>, kMaxShards> oldest_{};
};

}  // namespace reprise::shard
