#pragma once

#include "base/cache_line.hpp"
#include "base/mutex.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::api {

/// One slot per living writer, with its count of committed steps on a line of its own: in the
/// steady state no commit writes a line that writers share. Any thread.
class WriterSlots {
 public:
  explicit WriterSlots(std::size_t max_writers) : slots_(max_writers) {
    free_.reserve(max_writers);
    for (std::size_t i = max_writers; i != 0; --i) {
      free_.push_back(i - 1);
    }
  }

  /// The lowest slot that was never used, or the last one given back. Empty if all are taken.
  [[nodiscard]] std::optional<std::size_t> take() REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    if (free_.empty()) {
      return std::nullopt;
    }
    const std::size_t slot = free_.back();
    free_.pop_back();
    alive_.store(slots_.size() - free_.size(), std::memory_order_relaxed);
    return slot;
  }
  void give_back(std::size_t slot) noexcept REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    free_.push_back(slot);
    alive_.store(slots_.size() - free_.size(), std::memory_order_relaxed);
  }
  /// Relaxed: a count for statistics and guidance.
  [[nodiscard]] std::size_t alive() const noexcept {
    return alive_.load(std::memory_order_relaxed);
  }

  /// The slot's writer only; before it publishes the step, so that whoever has seen the step
  /// ingested sees it counted. Relaxed: the publish (B1) carries it; one writer, so no exchange.
  void count_step(std::size_t slot) noexcept {
    std::atomic<std::uint64_t>& steps = slots_[slot].committed;
    steps.store(steps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Relaxed: at least every step whose ingestion the caller has seen.
  [[nodiscard]] std::uint64_t committed() const noexcept {
    std::uint64_t sum = 0;
    for (const Slot& slot : slots_) {
      sum += slot.committed.load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  struct alignas(base::kCacheLine) Slot {
    std::atomic<std::uint64_t> committed{0};  ///< By all writers that had this slot, in turn.
  };
  std::vector<Slot> slots_;
  std::atomic<std::size_t> alive_{0};  ///< Written under the mutex.
  base::Mutex mutex_;
  std::vector<std::size_t> free_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::api
