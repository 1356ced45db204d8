#pragma once

#include <reprise/wait_stats.hpp>

#include "base/event.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace reprise::limiter {

/// Counts the waits of one kind. Any thread. Relaxed throughout: statistics that guard nothing.
class WaitMeter {
 public:
  /// One wait, from construction to destruction.
  class Wait {
   public:
    explicit Wait(WaitMeter& meter) noexcept : meter_(meter), start_(base::Clock::now()) {
      if (!meter_.anybody_waiting()) {
        meter_.first_start_.store(start_.time_since_epoch().count(), std::memory_order_relaxed);
      }
      meter_.waiting_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Wait() {
      const auto nanoseconds = static_cast<std::uint64_t>(elapsed().count());
      meter_.waiting_.fetch_sub(1, std::memory_order_relaxed);
      meter_.waits_.fetch_add(1, std::memory_order_relaxed);
      meter_.total_.fetch_add(nanoseconds, std::memory_order_relaxed);
      std::uint64_t longest = meter_.longest_.load(std::memory_order_relaxed);
      while (longest < nanoseconds && !meter_.longest_.compare_exchange_weak(
                                          longest, nanoseconds, std::memory_order_relaxed)) {
      }
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

    [[nodiscard]] std::chrono::nanoseconds elapsed() const noexcept {
      return std::chrono::duration_cast<std::chrono::nanoseconds>(base::Clock::now() - start_);
    }
    void timed_out() noexcept { meter_.timeouts_.fetch_add(1, std::memory_order_relaxed); }
    void stopped() noexcept { meter_.stops_.fetch_add(1, std::memory_order_relaxed); }

   private:
    WaitMeter& meter_;
    const base::Clock::time_point start_;
  };

  /// What is about to change may be shown as it was.
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

  /// A hint.
  [[nodiscard]] bool anybody_waiting() const noexcept {
    return waiting_.load(std::memory_order_relaxed) != 0;
  }

 private:
  std::atomic<std::uint64_t> waits_{0};
  std::atomic<std::uint64_t> timeouts_{0};
  std::atomic<std::uint64_t> stops_{0};
  std::atomic<std::uint32_t> waiting_{0};
  /// When the wait began since when somebody waits.
  std::atomic<base::Clock::rep> first_start_{0};
  std::atomic<std::uint64_t> total_{0};    ///< Nanoseconds.
  std::atomic<std::uint64_t> longest_{0};  ///< Nanoseconds.
};

}  // namespace reprise::limiter
