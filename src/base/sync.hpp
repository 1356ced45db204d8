#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace reprise::base {

/// Bytes of a cache line. One constant of our own: std::hardware_destructive_interference_size
/// depends on compiler and tuning flags, which must not change the layout of shared types.
inline constexpr std::size_t kCacheLine = 64;

// Schedule points, only for tests. With the CMake option REPRISE_SCHEDULE_POINTS, every operation
// of the synchronisation policy and of `base::Mutex` is a point at which its thread may yield or
// sleep. A generator decides, seeded from the seed of the schedule and the number of the thread.
// So rare interleavings come often, and mostly come again when a run has the same seed. Without the
// option the points are empty.

#if defined(REPRISE_SCHEDULE_POINTS)

/// A point at which another thread may run first. Any thread.
void schedule_point() noexcept;

/// Begins another schedule; 0 makes all points empty. The first seed is the environment variable
/// REPRISE_SCHEDULE_SEED, or 1. Threads use it from their next point on.
void set_schedule_seed(std::uint64_t seed) noexcept;

/// Gives the calling thread a number for the rest of its life, so that it has the same schedule in
/// the next run. Threads without a number get one at their first point.
void set_schedule_thread(std::uint64_t number) noexcept;

#else

inline void schedule_point() noexcept {}

#endif

/// Makes a point before an operation and one after it.
class SchedulePoints {
 public:
  SchedulePoints() noexcept { schedule_point(); }
  ~SchedulePoints() { schedule_point(); }
  SchedulePoints(const SchedulePoints&) = delete;
  SchedulePoints& operator=(const SchedulePoints&) = delete;
};

/// Memory orders under our own names, so that a model checker can replace them.
enum class Order : std::uint8_t { Relaxed, Acquire, Release, AcqRel, SeqCst };

/// The synchronisation policy of production code. The lock-free protocol consists of templates over
/// such a policy; a checker instantiates them over another. In test builds every operation has a
/// schedule point before it, and one that writes has another after it.
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

  /// A word in plain memory, such as that of a row, which is written without an atomic operation
  /// while only one thread uses the row.
  template <class T>
  class Ref {
   public:
    explicit Ref(T& word) noexcept : word_(word) {}

    [[nodiscard]] T load(Order o) const noexcept {
      schedule_point();
      return std::atomic_ref<T>(word_).load(order(o));
    }
    void store(T value, Order o) const noexcept {
      const SchedulePoints around;
      std::atomic_ref<T>(word_).store(value, order(o));
    }

   private:
    T& word_;
    static_assert(std::atomic_ref<T>::is_always_lock_free &&
                  std::atomic_ref<T>::required_alignment <= sizeof(T));
  };
};

}  // namespace reprise::base
