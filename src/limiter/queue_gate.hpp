#pragma once

#include "base/cache_line.hpp"
#include "base/sync.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace reprise::limiter {

/// The two gates of a `Queue`: writers book inserts out of the room that is left, samplers reserve
/// items out of those that wait. Any thread, lock-free; it never sleeps.
///
/// What waits is not counted here, because only the shards know it: an insert becomes an item later
/// than it is booked, or never. Whoever asks brings a way to look.
///
///  - A writer that looked and saw w items wait may let the inserts booked before its look be
///    followed by size - w more. That stays true whatever comes later: draws only lower w. So the
///    furthest such end is kept, and a writer looks only when all of it is booked.
///  - A sampler counts only items that no batch under way has reserved. All counts only grow, so
///    none can come back to a value that somebody has looked at before.
///
/// At most size items wait, and what writers other than the one that looked have booked and not
/// inserted, at most a block each, and steps whose items are not decided.
template <class Sync>
class QueueGate {
 public:
  /// `size` 0: there is no queue.
  QueueGate(std::size_t size, std::size_t block) noexcept
      : size_(size), block_(block), end_(size) {}

  [[nodiscard]] bool limits() const noexcept { return size_ != 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t block() const noexcept { return block_; }

  /// Books up to a block of inserts; 0 if the queue is full. `look()` says how many items wait,
  /// everything committed before it included, and `size` or more if it cannot tell; it is called
  /// only if no room is left over from a look before.
  template <class Look>
  [[nodiscard]] std::size_t book_inserts(Look look) noexcept {
    // Relaxed: any end that was ever stored is a safe one.
    std::uint64_t end = end_.load(base::Order::Relaxed);
    for (;;) {
      if (const std::size_t booked = book_up_to(end); booked != 0) {
        return booked;
      }
      // Q1: acquire; partner: the exchange in book_up_to. A writer that has booked again has
      // committed what it booked before, and the look that follows finds it.
      const std::uint64_t before = booked_.load(base::Order::Acquire);
      const std::size_t waiting = look();
      if (waiting >= size_) {
        return 0;
      }
      end = keep_furthest(before + (size_ - waiting));
    }
  }

  /// Reserves the n items of a batch; false if too few wait. `count()` says how many do, those
  /// reserved by others included.
  template <class Count>
  [[nodiscard]] bool reserve(std::size_t n, Count count) noexcept {
    for (;;) {
      // E1: seq_cst, a waiting sampler's look; partner: release. It comes first: items of a batch
      // seen as drawn here are missing in the count, and its reservation is seen below.
      const std::uint64_t released = released_.load(base::Order::SeqCst);
      // Relaxed: if it is not the latest, the exchange fails.
      std::uint64_t reserved = reserved_.load(base::Order::Relaxed);
      if (count() < reserved - released + n) {
        return false;
      }
      // Relaxed: it carries nothing; in the order of this word, no two batches get the same items.
      if (reserved_.compare_exchange(reserved, reserved + n, base::Order::Relaxed,
                                     base::Order::Relaxed)) {
        return true;
      }
    }
  }

  /// After the n items of a batch were drawn, or the batch came to nothing.
  /// E1: seq_cst, progress of waiting samplers; partner: their load in reserve.
  void release(std::size_t n) noexcept { released_.fetch_add(n, base::Order::SeqCst); }

  /// Before any other thread has it: so many items wait.
  void restore(std::size_t waiting) noexcept {
    end_.store(size_ - std::min(size_, waiting), base::Order::Relaxed);
  }

 private:
  /// Books up to a block, but none beyond `end`.
  [[nodiscard]] std::size_t book_up_to(std::uint64_t end) noexcept {
    // Relaxed, here and where the exchange fails: a count that is not the latest fails it.
    std::uint64_t booked = booked_.load(base::Order::Relaxed);
    while (booked < end) {
      const std::uint64_t count = std::min<std::uint64_t>(block_, end - booked);
      // Q1: release; partner: the load in book_inserts.
      if (booked_.compare_exchange(booked, booked + count, base::Order::Release,
                                   base::Order::Relaxed)) {
        return static_cast<std::size_t>(count);
      }
    }
    return 0;
  }

  /// The furthest of this end and those kept so far. Relaxed: an end is a number that holds for
  /// itself.
  [[nodiscard]] std::uint64_t keep_furthest(std::uint64_t end) noexcept {
    std::uint64_t kept = end_.load(base::Order::Relaxed);
    while (kept < end) {
      if (end_.compare_exchange(kept, end, base::Order::Relaxed, base::Order::Relaxed)) {
        return end;
      }
    }
    return kept;
  }

  const std::size_t size_;
  const std::size_t block_;
  alignas(base::kCacheLine) typename Sync::template Atomic<std::uint64_t> booked_{0};
  /// That bookings may reach; at first nothing waits.
  typename Sync::template Atomic<std::uint64_t> end_;
  alignas(base::kCacheLine) typename Sync::template Atomic<std::uint64_t> reserved_{0};
  typename Sync::template Atomic<std::uint64_t> released_{0};
};

}  // namespace reprise::limiter
