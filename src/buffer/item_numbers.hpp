#pragma once

#include "base/sync.hpp"

#include <atomic>
#include <cstdint>

namespace reprise::buffer {

/// Numbers items in the order in which they are decided, for selectors that draw by this order. Any
/// thread.
class alignas(base::kCacheLine) ItemNumbers {
 public:
  /// Takes the number of the item that its writer is deciding.
  /// O1: release; partner: taken. The calling writer has rung (told the shard of its rows) for
  /// every item that it decided before.
  [[nodiscard]] std::uint64_t take() noexcept {
    return next_.fetch_add(1, std::memory_order_release);
  }
  /// How many item numbers were taken. O1: acquire; partner: take. A thread that ingests everything
  /// after this call finds, for each item with a lower number, all items that the same writer
  /// decided before it.
  [[nodiscard]] std::uint64_t taken() const noexcept {
    return next_.load(std::memory_order_acquire);
  }
  /// Relaxed: called only before any other thread has the buffer.
  void restore(std::uint64_t taken) noexcept { next_.store(taken, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> next_{0};
};

}  // namespace reprise::buffer
