#pragma once

#include "testing/library.hpp"

#include <condition_variable>

namespace stress {

/// A gate at which threads stand still together. May be used by any thread.
class Gate {
 public:
  /// A thread between its first and its last call into the buffer. Waits while the gate is closed.
  class Presence {
   public:
    explicit Presence(Gate& gate);
    ~Presence();
    Presence(const Presence&) = delete;
    Presence& operator=(const Presence&) = delete;

   private:
    Gate& gate_;
  };

  /// Relaxed: a thread that sees it late stops late.
  [[nodiscard]] bool closed() const noexcept { return closed_.load(std::memory_order_relaxed); }
  /// Called by a thread that is present: stands still until the gate opens.
  void park();

  /// Closes the gate; false if some thread does not stop within the time.
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
  /// Joins the threads; false if some still run after the time.
  bool join(std::chrono::seconds patience);

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  std::size_t running_ = 0;  // Guarded by mutex_.
  std::vector<std::thread> threads_;
};

}  // namespace stress
