#pragma once

#include "base/cache_line.hpp"
#include "base/sync.hpp"

#include <algorithm>
#include <cstddef>

namespace reprise::shard {

/// Items, as a shard counts them, in the whole buffer, against its capacity. Any thread.
///
/// Whoever evicts claims the excess first, so that two shards never evict for the same item and a
/// full buffer holds exactly its capacity. Every access is relaxed: the count carries no data;
/// each change happens under the lock of the shard whose items it counts, and whoever needs an
/// exact figure has taken those locks.
class Budget {
 public:
  explicit Budget(std::size_t capacity) noexcept : capacity_(capacity) {}

  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  void add(std::size_t items) noexcept { resident_.fetch_add(items, base::Order::Relaxed); }

  /// Items that were deselected without a claim.
  void remove(std::size_t items) noexcept { resident_.fetch_sub(items, base::Order::Relaxed); }

  /// Takes up to `most` items off the count, as many as there are above the capacity; the caller
  /// deselects that many.
  [[nodiscard]] std::size_t claim_excess(std::size_t most) noexcept {
    std::size_t resident = resident_.load(base::Order::Relaxed);
    std::size_t claim = 0;
    do {
      claim = resident > capacity_ ? std::min(resident - capacity_, most) : 0;
    } while (claim != 0 && !resident_.compare_exchange(resident, resident - claim,
                                                       base::Order::Relaxed, base::Order::Relaxed));
    return claim;
  }

  /// Those whose ingester has not come round to its eviction included.
  [[nodiscard]] std::size_t resident() const noexcept {
    return resident_.load(base::Order::Relaxed);
  }
  /// What users are told of: what is above the capacity is on its way out.
  [[nodiscard]] std::size_t settled() const noexcept { return std::min(resident(), capacity_); }
  [[nodiscard]] bool exceeded() const noexcept { return resident() > capacity_; }

  // With a limit of draws: what is to go before items that may be drawn again. Each shard tells
  // what it has, under its lock; a count that is a moment old lets another shard evict than the
  // best one.
  void add_exhausted(std::ptrdiff_t items) noexcept {
    exhausted_.fetch_add(static_cast<std::size_t>(items), base::Order::Relaxed);
  }
  [[nodiscard]] std::size_t exhausted() const noexcept {
    return exhausted_.load(base::Order::Relaxed);
  }
  /// Whether one more shard, or one fewer, has a front to evict (`DrawLimit`).
  void tell_front(bool has) noexcept {
    shards_with_fronts_.fetch_add(has ? 1U : std::size_t{0} - 1U, base::Order::Relaxed);
  }
  [[nodiscard]] std::size_t shards_with_fronts() const noexcept {
    return shards_with_fronts_.load(base::Order::Relaxed);
  }

 private:
  const std::size_t capacity_;
  alignas(base::kCacheLine) base::StdSync::Atomic<std::size_t> resident_{0};
  base::StdSync::Atomic<std::size_t> exhausted_{0};
  base::StdSync::Atomic<std::size_t> shards_with_fronts_{0};
};

}  // namespace reprise::shard
