#pragma once

#include "base/event.hpp"
#include "base/mutex.hpp"
#include "base/sync.hpp"

#include <atomic>
#include <cstdint>

namespace reprise::base {

/// Whether a buffer is open or closed, and whether this is still the process that made it. Any
/// thread.
///
/// A forked child has a copy of every lock but not the threads that held them, so a thread that
/// locks or waits in the child may do so for ever. A handler that runs in each child counts the
/// forks that led to a process; a `Life` that was made at another count belongs to another process.
/// A child that is made without handlers (`vfork`, `_Fork`) is not noticed.
class Life {
 public:
  /// Throws `std::bad_alloc` if the handler cannot be installed.
  Life();

  /// C1: acquire; partner: close. A thread that sees the life closed sees what the closing thread
  /// did before.
  [[nodiscard]] bool closed() const noexcept { return closed_.load(Order::Acquire) != 0; }

  /// Closes, then wakes the threads that sleep on registered events; in a forked child does
  /// nothing.
  void close() noexcept;

  /// While an object of this class lives, `close` wakes the threads that sleep on its event.
  class WokenByClose {
   public:
    /// The life and the event outlive this object.
    WokenByClose(Life& life, Event& event) noexcept;
    ~WokenByClose();
    WokenByClose(const WokenByClose&) = delete;
    WokenByClose& operator=(const WokenByClose&) = delete;

   private:
    friend class Life;

    Life& life_;
    Event& event_;
    mutable WokenByClose* next_;  ///< Guarded by the life's mutex; neighbours change it, too.
  };

  /// Whether this is a forked child, or a child of one. Relaxed: a child begins with one thread,
  /// which has counted the fork; the count never changes later.
  [[nodiscard]] bool forked() const noexcept {
    return forks_.load(std::memory_order_relaxed) != forks_when_made_;
  }

  /// Throws `std::logic_error` in a forked child, naming both processes and what to do.
  void check_not_forked() const {
    if (forked()) {
      throw_forked();
    }
  }

 private:
  [[noreturn]] void throw_forked() const;

  // Every commit reads these members, and they hardly ever change: their cache line has no others.
  alignas(kCacheLine) StdSync::Atomic<std::uint32_t> closed_{0};
  /// The count of forks in the copy of the library that made this object: a process may have
  /// several copies.
  const std::atomic<std::uint32_t>& forks_;
  const std::uint32_t forks_when_made_;
  const std::int64_t creator_pid_;  ///< Process id, for the refusal.

  alignas(kCacheLine) Mutex mutex_;
  /// An intrusive list, which needs no destruction: a fork may come while another thread changes
  /// the list, and the child destroys its copy of this object all the same.
  WokenByClose* first_ REPRISE_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace reprise::base
