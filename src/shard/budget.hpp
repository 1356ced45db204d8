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

 private:
  const std::size_t capacity_;
  alignas(base::kCacheLine) base::StdSync::Atomic<std::size_t> resident_{0};
};

}  // namespace reprise::shard
