#pragma once

// Relacy turns `new`, `delete` and the memory orders into macros, so it has to be included after
// all code that uses them. This header includes the code under test first, and afterwards removes
// the macros.
// clang-format off
#include "sites.hpp"

#include "limiter/gates.hpp"
#include "base/sync.hpp"
#include "base/event.hpp"
#include "process/ring.hpp"
#include "storage/doorbell.hpp"
#include "storage/free_list.hpp"
#include "storage/pin_word.hpp"
#include "storage/step_version.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <sstream>
#include <string>
#include <vector>

#include <relacy/relacy.hpp>
// clang-format on

#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef assert
#undef errno
#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst

namespace reprise::model {

using Where = std::source_location;

inline rl::debug_info info(const Where& where) {
  return {where.function_name(), where.file_name(), where.line()};
}

/// Makes the run fail unless `holds`; the search then prints the steps of the run.
inline void expect(bool holds, const char* what, Where where = Where::current()) {
  if (!holds) {
    rl::ctx().fail_test(what, rl::test_result_user_assert_failed, info(where));
  }
}

/// The checker's synchronisation policy: the interface of base::StdSync over Relacy's atomics. Each
/// operation has its place in the source as an argument, so that its memory order can be weakened.
struct RelacySync {
  static rl::memory_order order(const Where& where, Access access, base::Order order) {
    switch (order_at(where, access, order)) {
      case base::Order::Relaxed:
        return rl::mo_relaxed;
      case base::Order::Acquire:
        return rl::mo_acquire;
      case base::Order::Release:
        return rl::mo_release;
      case base::Order::AcqRel:
        return rl::mo_acq_rel;
      case base::Order::SeqCst:
        break;
    }
    return rl::mo_seq_cst;
  }

  template <class T>
  class Atomic {
   public:
    Atomic() : Atomic(T{}) {}
    explicit Atomic(T value) { value_.store(value, rl::mo_relaxed, info(Where::current())); }

    T load(base::Order o, Where where = Where::current()) const {
      return value_.load(order(where, Access::Load, o), info(where));
    }
    void store(T value, base::Order o, Where where = Where::current()) {
      value_.store(value, order(where, Access::Store, o), info(where));
    }
    T exchange(T value, base::Order o, Where where = Where::current()) {
      return value_.exchange(value, order(where, Access::Modify, o), info(where));
    }
    T fetch_add(T value, base::Order o, Where where = Where::current()) {
      return value_.fetch_add(value, order(where, Access::Modify, o), info(where));
    }
    T fetch_sub(T value, base::Order o, Where where = Where::current()) {
      return value_.fetch_sub(value, order(where, Access::Modify, o), info(where));
    }
    /// In C++ a compare-exchange that fails is a load, which may read an old value, and a weak
    /// compare-exchange may fail without reason. That of Relacy always reads the newest value, so
    /// in random runs a failure is a separate load. (With such loads exhaustive runs would never
    /// end.)
    bool compare_exchange(T& expected, T desired, base::Order success, base::Order failure,
                          Where where = Where::current()) {
      const rl::memory_order exchanged = order(where, Access::Exchanged, success);
      const rl::memory_order not_exchanged = order(where, Access::NotExchanged, failure);
      rl::context& context = rl::ctx();
      context.sched();
      context.disable_preemption();
      T same = expected;
      const bool random = context.is_random_sched();
      const bool done = value_.debug_value() == expected && !(random && rl::rand(8) == 0);
      if (done) {
        exchange_if(same, desired, exchanged, rl::mo_relaxed, where);
      } else if (random) {
        expected = value_.load(not_exchanged, info(where));
      } else {
        exchange_if(expected, desired, rl::mo_seq_cst, not_exchanged, where);
      }
      context.enable_preemption();
      return done;
    }

   private:
    void exchange_if(T& expected, T desired, rl::memory_order success, rl::memory_order failure,
                     const Where& where) {
      value_.compare_exchange(rl::bool_t<false>(), expected, desired, success, failure,
                              info(where));
    }

    rl::atomic<T> value_;
  };
};

/// Plain memory. Relacy reports two accesses by different threads that are not ordered.
template <class T>
class Plain {
 public:
  explicit Plain(T value = T{}) { set(value); }
  T get(Where where = Where::current()) const { return value_(info(where)); }
  void set(T value, Where where = Where::current()) { value_(info(where)) = value; }

 private:
  rl::var<T> value_;
};

/// Holds the lock of a shard.
class Lock {
 public:
  explicit Lock(rl::mutex& mutex, Where where = Where::current()) : mutex_(mutex) {
    mutex_.lock(info(where));
  }
  ~Lock() { mutex_.unlock(info(Where::current())); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  rl::mutex& mutex_;
};

}  // namespace reprise::model

namespace reprise::storage {

template <class T>
class Owned<model::RelacySync, T> : public model::Plain<T> {
 public:
  using model::Plain<T>::Plain;
};

}  // namespace reprise::storage
