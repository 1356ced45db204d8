#pragma once

#include "base/mutex.hpp"
#include "testing/test.hpp"

namespace reprise::test {

/// A thread that holds a lock until it is told to release it.
class LockHolder {
 public:
  explicit LockHolder(base::Mutex& mutex)
      : thread_([this, &mutex] {
          const base::MutexLock lock(mutex);
          held_.store(true);
          held_.notify_one();
          release_.wait(false);
        }) {
    held_.wait(false);
  }
  ~LockHolder() { release(); }
  LockHolder(const LockHolder&) = delete;
  LockHolder& operator=(const LockHolder&) = delete;

  void release() {
    if (thread_.joinable()) {
      release_.store(true);
      release_.notify_one();
      thread_.join();
    }
  }

 private:
  std::atomic<bool> held_ = false;
  std::atomic<bool> release_ = false;
  std::thread thread_;  // Declared last, because the thread uses the members above.
};

}  // namespace reprise::test
