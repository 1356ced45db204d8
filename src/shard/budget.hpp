#pragma once

#include "base/sync.hpp"

#include <algorithm>
#include <cstddef>

namespace reprise::shard {

/// Counts the resident steps of all shards against the capacity of the buffer. Any thread.
///
/// A shard claims the excess before it evicts, so that two shards never evict for the same step and
/// a full buffer holds exactly its capacity. Every access is relaxed, because the counts publish no
/// other data. Each change is made under the lock of the shard whose steps it counts, so a thread
/// that holds all locks reads exact counts.
class Budget {
 public:
  explicit Budget(std::size_t capacity) noexcept : capacity_(capacity) {}

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  void add(std::size_t items) noexcept { resident_.fetch_add(items, base::Order::Relaxed); }

  /// Subtracts steps that were deselected without a claim.
  void remove(std::size_t items) noexcept { resident_.fetch_sub(items, base::Order::Relaxed); }

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

  /// Resident steps. It may be above the capacity between an ingester's count of new steps and its
  /// eviction.
  [[nodiscard]] std::size_t resident() const noexcept {
    return resident_.load(base::Order::Relaxed);
  }
  /// The count that users see: steps above the capacity are about to be evicted, and steps whose
  /// item was removed are not counted. Stale counts may show an item too many or too few.
  [[nodiscard]] std::size_t settled() const noexcept {
    const std::size_t removed = removed_.load(base::Order::Relaxed);
    return std::max(std::min(resident(), capacity_), removed) - removed;
  }
  /// Counts resident steps whose item was removed, or which left since.
  void add_removed(std::ptrdiff_t items) noexcept {
    removed_.fetch_add(static_cast<std::size_t>(items), base::Order::Relaxed);
  }
  [[nodiscard]] bool exceeded() const noexcept { return resident() > capacity_; }

  // The following counts are for a limit of draws: they say what has to be evicted before items
  // that may be drawn again. Each shard adds its part under its lock. Stale counts are harmless: at
  // worst another shard evicts than the best one.
  void add_exhausted(std::ptrdiff_t items) noexcept {
    exhausted_.fetch_add(static_cast<std::size_t>(items), base::Order::Relaxed);
  }
  [[nodiscard]] std::size_t exhausted() const noexcept {
    return exhausted_.load(base::Order::Relaxed);
  }
  /// Counts one more shard that has a front to evict (`DrawLimit`), or one fewer.
  void tell_front(bool has) noexcept {
    shards_with_fronts_.fetch_add(has ? 1U : std::size_t{0} - 1U, base::Order::Relaxed);
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
};

}  // namespace reprise::shard
