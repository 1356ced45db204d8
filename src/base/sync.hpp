#pragma once

#include "base/schedule.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace reprise::base {

/// Memory orders under our own names, so that a model checker can replace them.
enum class Order : std::uint8_t { Relaxed, Acquire, Release, AcqRel, SeqCst };

/// The synchronisation policy of production code. The lock-free protocol consists of templates over
/// such a policy; a checker instantiates them over another. Every operation is a schedule point of
/// test builds; operations that write are one before and one after.
struct StdSync {
  static constexpr std::memory_order order(Order order) noexcept {
    constexpr std::memory_order kOrders[] = {std::memory_order_relaxed, std::memory_order_acquire,
                                             std::memory_order_release, std::memory_order_acq_rel,
                                             std::memory_order_seq_cst};
    return kOrders[static_cast<std::size_t>(order)];
  }

  template <class T>
  class Atomic {
   public:
    Atomic() noexcept = default;
    explicit Atomic(T value) noexcept : value_(value) {}

    [[nodiscard]] T load(Order o) const noexcept {
      schedule_point();
      return value_.load(order(o));
    }
    void store(T value, Order o) noexcept {
      const SchedulePoints around;
      value_.store(value, order(o));
    }
    T exchange(T value, Order o) noexcept {
      const SchedulePoints around;
      return value_.exchange(value, order(o));
    }
    T fetch_add(T value, Order o) noexcept {
      const SchedulePoints around;
      return value_.fetch_add(value, order(o));
    }
    T fetch_sub(T value, Order o) noexcept {
      const SchedulePoints around;
      return value_.fetch_sub(value, order(o));
    }
    bool compare_exchange(T& expected, T desired, Order success, Order failure) noexcept {
      const SchedulePoints around;
      return value_.compare_exchange_weak(expected, desired, order(success), order(failure));
    }

   private:
    std::atomic<T> value_{};
    static_assert(std::atomic<T>::is_always_lock_free);
  };
};

}  // namespace reprise::base
