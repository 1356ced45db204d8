#pragma once

#include "base/cache_line.hpp"
#include "base/sync.hpp"
#include "storage/free_list.hpp"

#include <cstdint>

namespace reprise::storage {

/// Hands out chunks that were never used, each once, lowest first. Any thread, lock-free.
template <class Sync>
class FreshChunks {
 public:
  /// The next chunk below `limit`; kNil if all have been handed out.
  std::uint32_t take(std::uint32_t limit) noexcept {
    // Relaxed: only the number decides who gets the chunk, and nobody has written to it before.
    std::uint32_t next = taken_.load(base::Order::Relaxed);
    while (next < limit) {
      if (taken_.compare_exchange(next, next + 1, base::Order::Relaxed, base::Order::Relaxed)) {
        return next;
      }
    }
    return kNil;
  }

  /// Marks the first `taken` chunks as handed out. Relaxed, because no other thread has it yet.
  void restore(std::uint32_t taken) noexcept { taken_.store(taken, base::Order::Relaxed); }

  /// Relaxed: a count for statistics and hints.
  [[nodiscard]] std::uint32_t taken() const noexcept { return taken_.load(base::Order::Relaxed); }

 private:
  alignas(base::kCacheLine) typename Sync::template Atomic<std::uint32_t> taken_{0};
};

}  // namespace reprise::storage
