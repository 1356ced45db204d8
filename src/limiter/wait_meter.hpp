#pragma once

#include <reprise/wait_stats.hpp>

#include "base/event.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace reprise::limiter {

/// Counts the waits of one kind. Any thread. Relaxed throughout, because no other data depends on
/// these statistics.
class WaitMeter {
 public:
  void begin(base::Clock::time_point start) noexcept {
    if (!anybody_waiting()) {
      first_start_.store(start.time_since_epoch().count(), std::memory_order_relaxed);
    }
    waiting_.fetch_add(1, std::memory_order_relaxed);
  }
  void end(std::chrono::nanoseconds waited, bool timed_out, bool stopped) noexcept {
    const auto nanoseconds = static_cast<std::uint64_t>(waited.count());
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    waits_.fetch_add(1, std::memory_order_relaxed);
    timeouts_.fetch_add(timed_out ? 1 : 0, std::memory_order_relaxed);
    stops_.fetch_add(stopped ? 1 : 0, std::memory_order_relaxed);
    total_.fetch_add(nanoseconds, std::memory_order_relaxed);
    std::uint64_t longest = longest_.load(std::memory_order_relaxed);
    while (longest < nanoseconds &&
           !longest_.compare_exchange_weak(longest, nanoseconds, std::memory_order_relaxed)) {
    }
  }

  /// A snapshot; it may lag behind waits that are under way.
  [[nodiscard]] WaitStats stats() const noexcept {
    WaitStats stats;
    stats.waits = waits_.load(std::memory_order_relaxed);
    stats.timeouts = timeouts_.load(std::memory_order_relaxed);
    stats.stops = stops_.load(std::memory_order_relaxed);
    stats.waiting_now = waiting_.load(std::memory_order_relaxed);
    if (stats.waiting_now != 0) {
      const base::Clock::duration start(first_start_.load(std::memory_order_relaxed));
      stats.waiting_for = base::Clock::now().time_since_epoch() - start;
    }
    stats.total = std::chrono::nanoseconds(total_.load(std::memory_order_relaxed));
    stats.longest = std::chrono::nanoseconds(longest_.load(std::memory_order_relaxed));
    return stats;
  }

  /// A hint: the answer may be stale.
  [[nodiscard]] bool anybody_waiting() const noexcept {
    return waiting_.load(std::memory_order_relaxed) != 0;
  }

 private:
  std::atomic<std::uint64_t> waits_{0};
  std::atomic<std::uint64_t> timeouts_{0};
  std::atomic<std::uint64_t> stops_{0};
  std::atomic<std::uint32_t> waiting_{0};
  /// Start of the current stretch in which at least one thread waits; no meaning while nobody
  /// waits.
  std::atomic<base::Clock::rep> first_start_{0};
  std::atomic<std::uint64_t> total_{0};    ///< Nanoseconds.
  std::atomic<std::uint64_t> longest_{0};  ///< Nanoseconds.
};

}  // namespace reprise::limiter
