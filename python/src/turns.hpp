#pragma once

#include "waiting.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>

namespace reprise::python {

/// Calls of one object take turns, the long ones without the GIL.
///
/// A thread that has the turn never asks for the GIL, so a thread with either may wait for the
/// other.
class Turns {
 public:
  /// Runs the work, which uses nothing of Python's, and throws what it throws. RuntimeError in a
  /// child forked while a thread of its parent had the turn, which is never given back there.
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
      // Relaxed: a child has the word of its parent at the fork, with one thread to write it.
      if (holder_.load(std::memory_order_relaxed) != ::getpid()) {
        throw std::logic_error("the process was forked while a call of this object was under way");
      }
    }
    holder_.store(::getpid(), std::memory_order_relaxed);
    return turn;
  }

  static constexpr std::chrono::milliseconds kLookAgain{50};
  std::timed_mutex mutex_;
  /// The process that last had the turn without the GIL. Python forks only with the GIL held, so a
  /// turn taken with it needs no note.
  std::atomic<::pid_t> holder_{::getpid()};
};

}  // namespace reprise::python
