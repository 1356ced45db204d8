#pragma once

#include "testing/library.hpp"

#include <condition_variable>

namespace stress {

/// Lets a conductor stop all threads at a common point. Any thread.
class Gate {
 public:
  /// Exists from a thread's first call into the buffer to its last. Its constructor waits while the
  /// gate is closed.
  class Presence {
   public:
    explicit Presence(Gate& gate);
    ~Presence();
    Presence(const Presence&) = delete;
    Presence& operator=(const Presence&) = delete;

   private:
    Gate& gate_;
  };

  /// Relaxed: a thread that sees the gate closed late only stops late.
  [[nodiscard]] bool closed() const noexcept { return closed_.load(std::memory_order_relaxed); }
  /// Waits until the gate opens. Only threads with a Presence may call it.
  void park();

  /// Closes the gate and waits until all present threads are parked; false if that takes longer
  /// than `patience`.
  bool close(std::chrono::seconds patience);
  void open();

 private:
  std::atomic<bool> closed_ = false;
  std::mutex mutex_;
  std::condition_variable opened_;
  std::condition_variable parked_all_;
  std::size_t present_ = 0;  // This member and the next are guarded by mutex_.
  std::size_t parked_ = 0;
};

/// Threads that are joined with a time limit.
class Threads {
 public:
  void start(std::function<void()> work);
  /// Joins the threads; false if some still run after `patience`.
  bool join(std::chrono::seconds patience);

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  std::size_t running_ = 0;  // Guarded by mutex_.
  std::vector<std::thread> threads_;
};

}  // namespace stress
