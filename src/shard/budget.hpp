#pragma once

#include "base/cache_line.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace reprise::shard {

/// Items that can be sampled in the whole buffer, against its capacity. Any thread.
///
/// Whoever evicts claims the excess first, so that two shards never evict for the same item and a
/// full buffer holds exactly its capacity. Every access is relaxed: the count carries no data;
/// each change happens under the lock of the shard whose items it counts, and whoever needs an
/// exact figure has taken those locks.
class Budget {
 public:
  explicit Budget(std::size_t capacity) noexcept : capacity_(capacity) {}

  void add(std::size_t items) noexcept { resident_.fetch_add(items, std::memory_order_relaxed); }

  /// Takes up to `most` items off the count, as many as there are above the capacity; the caller
  /// deselects that many.
  [[nodiscard]] std::size_t claim_excess(std::size_t most) noexcept {
    std::size_t resident = resident_.load(std::memory_order_relaxed);
    std::size_t claim = 0;
    do {
      claim = resident > capacity_ ? std::min(resident - capacity_, most) : 0;
    } while (claim != 0 && !resident_.compare_exchange_weak(resident, resident - claim,
                                                            std::memory_order_relaxed));
    return claim;
  }

  [[nodiscard]] std::size_t resident() const noexcept {
    return resident_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool exceeded() const noexcept { return resident() > capacity_; }

 private:
  const std::size_t capacity_;
  alignas(base::kCacheLine) std::atomic<std::size_t> resident_{0};
};

}  // namespace reprise::shard
