#pragma once

#include "waiting.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>

namespace reprise::python {

/// Lets the calls of one object take turns; long calls run without the GIL.
///
/// There is no deadlock, because a thread that has the turn never asks for the GIL.
class Turns {
 public:
  /// Runs the work, which must not use Python, and passes its exceptions on. RuntimeError in a
  /// child that was forked while a thread of its parent had the turn, because the turn is never
  /// given back there.
  template <class Work>
  auto take(bool long_work, const Work& work) {
    if (!long_work) {
      const std::unique_lock turn(mutex_, std::try_to_lock);
      if (turn) {
        return work();
      }
    }
    const Released released;
    const std::unique_lock turn = wait();
    return work();
  }

 private:
  std::unique_lock<std::timed_mutex> wait() {
    std::unique_lock turn(mutex_, std::defer_lock);
    while (!turn.try_lock_for(kLookAgain)) {
      // Relaxed: a child gets the value at the fork, and has a single thread then.
      if (holder_.load(std::memory_order_relaxed) != ::getpid()) {
        throw std::logic_error("the process was forked while a call of this object was under way");
      }
    }
    holder_.store(::getpid(), std::memory_order_relaxed);
    return turn;
  }

  static constexpr std::chrono::milliseconds kLookAgain{50};
  std::timed_mutex mutex_;
  /// The process that last took the turn without the GIL. Python forks only with the GIL held, so a
  /// turn that is taken with the GIL need not be noted.
  std::atomic<::pid_t> holder_{::getpid()};
};

}  // namespace reprise::python
