#pragma once

#include "base/sync.hpp"

#include <mutex>

#if defined(__clang__)
#define REPRISE_ANNOTATE(x) __attribute__((x))
#else
#define REPRISE_ANNOTATE(x)
#endif

/// Clang's thread-safety attributes (-Wthread-safety); nothing under other compilers.
#define REPRISE_CAPABILITY(x) REPRISE_ANNOTATE(capability(x))
#define REPRISE_SCOPED_CAPABILITY REPRISE_ANNOTATE(scoped_lockable)
#define REPRISE_GUARDED_BY(x) REPRISE_ANNOTATE(guarded_by(x))
#define REPRISE_REQUIRES(...) REPRISE_ANNOTATE(requires_capability(__VA_ARGS__))
#define REPRISE_EXCLUDES(...) REPRISE_ANNOTATE(locks_excluded(__VA_ARGS__))
#define REPRISE_ACQUIRE(...) REPRISE_ANNOTATE(acquire_capability(__VA_ARGS__))
#define REPRISE_RELEASE(...) REPRISE_ANNOTATE(release_capability(__VA_ARGS__))
#define REPRISE_UNCHECKED REPRISE_ANNOTATE(no_thread_safety_analysis)
#define REPRISE_TRY_ACQUIRE(...) REPRISE_ANNOTATE(try_acquire_capability(__VA_ARGS__))

namespace reprise::base {

/// std::mutex with the capability attribute, which libstdc++'s lacks. In test builds there is a
/// schedule point before each lock and after each unlock.
class REPRISE_CAPABILITY("mutex") Mutex {
 public:
  void lock() REPRISE_ACQUIRE() {
    schedule_point();
    mutex_.lock();
  }
  void unlock() REPRISE_RELEASE() {
    mutex_.unlock();
    schedule_point();
  }
  bool try_lock() REPRISE_TRY_ACQUIRE(true) {
    schedule_point();
    return mutex_.try_lock();
  }

 private:
  std::mutex mutex_;
};

/// Holds a mutex for a scope.
class REPRISE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) REPRISE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() REPRISE_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace reprise::base
