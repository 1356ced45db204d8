#pragma once

#include "base/sync.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace reprise::limiter {

/// How far samples and inserts may run ahead of each other.
struct Ratio {
  std::size_t min_size = 1;         ///< Items resident before anything is sampled.
  double samples_per_insert = 0.0;  ///< 0 if there is no ratio to hold.
  double error_buffer = 0.0;        ///< In sampled items, in both directions.
  std::size_t block = 1;            ///< Inserts booked at a time.
};

/// The counts of a rate limiter and its two gates. Any thread, lock-free; it never sleeps.
///
/// Both gates use the same counts. A change that can open a gate is sequentially consistent, and so
/// is the load with which a waiting thread looks at it (E1). The other accesses are relaxed,
/// because they only have to count right.
template <class Sync>
class RatioGate {
 public:
  explicit RatioGate(const Ratio& ratio) noexcept : ratio_(ratio) {}

  [[nodiscard]] const Ratio& ratio() const noexcept { return ratio_; }

  /// Books a block of inserts; false if writers are too far ahead. `resident`: items that can be
  /// sampled; while they are fewer than `min_size`, no insert waits.
  [[nodiscard]] bool book_inserts(std::size_t resident) noexcept {
    // Relaxed, here and where the exchange fails: a count that is too low makes the exchange fail.
    // One that is too high, because a writer has returned inserts meanwhile, can only refuse the
    // booking, and a refused writer asks again.
    std::uint64_t inserts = inserts_.load(base::Order::Relaxed);
    for (;;) {
      const std::uint64_t after = inserts + ratio_.block;
      const bool needed = after <= ratio_.min_size || resident < ratio_.min_size;
      // E1: seq_cst, a waiting writer's look; partner: the exchange in admit_samples.
      if (!needed && balance(samples_.load(base::Order::SeqCst), after) < -ratio_.error_buffer) {
        return false;
      }
      // E1: seq_cst, progress of waiting samplers; partner: their load.
      if (inserts_.compare_exchange(inserts, after, base::Order::SeqCst, base::Order::Relaxed)) {
        return true;
      }
    }
  }

  /// Gives back the inserts that a writer booked and did not make. Relaxed: nobody waits for it.
  void return_inserts(std::size_t inserts) noexcept {
    inserts_.fetch_sub(inserts, base::Order::Relaxed);
  }

  /// Counts a batch; false if samplers are too far ahead.
  [[nodiscard]] bool admit_samples(std::size_t items) noexcept {
    for (;;) {
      // E1: seq_cst, a waiting sampler's look; partners: return_samples, and the exchange in
      // book_inserts.
      std::uint64_t samples = samples_.load(base::Order::SeqCst);
      if (limits() &&
          balance(samples + items, inserts_.load(base::Order::SeqCst)) > ratio_.error_buffer) {
        return false;
      }
      // E1: seq_cst, progress of waiting writers; partner: their load. Relaxed where it fails: the
      // count is loaded again.
      if (samples_.compare_exchange(samples, samples + items, base::Order::SeqCst,
                                    base::Order::Relaxed)) {
        return true;
      }
    }
  }

  /// Takes back the count of a batch that could not be drawn.
  /// E1: seq_cst, progress of waiting samplers; partner: their load.
  void return_samples(std::size_t items) noexcept {
    samples_.fetch_sub(items, base::Order::SeqCst);
  }

  // Relaxed: a checkpoint of a buffer in use stores what the counts are at about that moment.
  [[nodiscard]] std::uint64_t inserts() const noexcept {
    return inserts_.load(base::Order::Relaxed);
  }
  [[nodiscard]] std::uint64_t samples() const noexcept {
    return samples_.load(base::Order::Relaxed);
  }
  /// Only before any other thread uses the gate.
  void restore(std::uint64_t inserts, std::uint64_t samples) noexcept {
    inserts_.store(inserts, base::Order::Relaxed);
    samples_.store(samples, base::Order::Relaxed);
  }

  [[nodiscard]] bool limits() const noexcept { return ratio_.samples_per_insert > 0.0; }

  /// By how many sampled items samples (positive) or inserts (negative) are ahead of the ratio.
  /// Relaxed: for statistics.
  [[nodiscard]] double ahead() const noexcept {
    return balance(samples_.load(base::Order::Relaxed), inserts_.load(base::Order::Relaxed));
  }

 private:
  [[nodiscard]] double balance(std::uint64_t samples, std::uint64_t inserts) const noexcept {
    const auto counted = static_cast<double>(inserts) - static_cast<double>(ratio_.min_size);
    return static_cast<double>(samples) - ratio_.samples_per_insert * counted;
  }

  const Ratio ratio_;
  alignas(base::kCacheLine) typename Sync::template Atomic<std::uint64_t> inserts_{0};
  alignas(base::kCacheLine) typename Sync::template Atomic<std::uint64_t> samples_{0};
};

/// The two gates of a `Queue`: writers book inserts from the room that is left, samplers reserve
/// some of the items that wait to be sampled. Any thread, lock-free; it never sleeps.
///
/// Waiting items are not counted here, because only the shards know them: an insert becomes an item
/// later than it is booked, or never. So callers pass a function that counts them.
///
///  - A writer that looked and saw w waiting items may allow size - w more inserts than were booked
///    before its look. This stays true later, because draws only lower w. So the furthest end found
///    so far is kept, and a writer looks again only when bookings have reached it.
///  - A sampler counts only items that no unfinished batch has reserved. All counts only grow, so
///    none returns to a value that another thread has read before (no ABA).
///
/// The items that wait are at most `size`, plus one block for each writer other than the one that
/// looked (booked and not yet inserted), plus the steps whose items are not decided.
template <class Sync>
class QueueGate {
 public:
  /// `size`: items; 0 if there is no queue. `block`: the most inserts that one call books.
  QueueGate(std::size_t size, std::size_t block) noexcept
      : size_(size), block_(block), end_(size) {}

  [[nodiscard]] bool limits() const noexcept { return size_ != 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t block() const noexcept { return block_; }

  /// Books up to a block of inserts; 0 if the queue is full. `look()` returns the number of waiting
  /// items, including everything committed before the call, or `size` or more if it cannot tell. It
  /// is called only if an earlier look left no room.
  template <class Look>
  [[nodiscard]] std::size_t book_inserts(Look look) noexcept {
    // Relaxed: every end that was ever stored is safe to use.
    std::uint64_t end = end_.load(base::Order::Relaxed);
    for (;;) {
      if (const std::size_t booked = book_up_to(end); booked != 0) {
        return booked;
      }
      // Q1: acquire; partner: the exchange in book_up_to. A writer books again only after it has
      // committed its earlier bookings, so the look below finds those steps.
      const std::uint64_t before = booked_.load(base::Order::Acquire);
      const std::size_t waiting = look();
      if (waiting >= size_) {
        return 0;
      }
      end = keep_furthest(before + (size_ - waiting));
    }
  }

  /// Reserves the n items of a batch; false if too few wait. `count()` returns the number of
  /// waiting items, including those that other samplers have reserved.
  template <class Count>
  [[nodiscard]] bool reserve(std::size_t n, Count count) noexcept {
    for (;;) {
      // E1: seq_cst, a waiting sampler's look; partner: release. This load comes first: if it sees
      // a batch as drawn, the count below lacks its items, and the load below sees its reservation.
      const std::uint64_t released = released_.load(base::Order::SeqCst);
      // Relaxed: if it is not the latest, the exchange fails.
      std::uint64_t reserved = reserved_.load(base::Order::Relaxed);
      if (count() < reserved - released + n) {
        return false;
      }
      // Relaxed: it publishes no other data. The exchanges of this one word follow each other, so
      // no two batches get the same items.
      if (reserved_.compare_exchange(reserved, reserved + n, base::Order::Relaxed,
                                     base::Order::Relaxed)) {
        return true;
      }
    }
  }

  /// Ends a reservation: its n items were drawn, or the draw found nothing.
  /// E1: seq_cst, progress of waiting samplers; partner: their load in reserve.
  void release(std::size_t n) noexcept { released_.fetch_add(n, base::Order::SeqCst); }

  /// Only before any other thread uses the gate. `waiting`: items in the queue.
  void restore(std::size_t waiting) noexcept {
    end_.store(size_ - std::min(size_, waiting), base::Order::Relaxed);
  }

 private:
  /// Books up to a block of inserts, none of them beyond `end`.
  [[nodiscard]] std::size_t book_up_to(std::uint64_t end) noexcept {
    // Relaxed, here and where the exchange fails: a stale count makes the exchange fail.
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

  /// Stores `end` if it is further than the one kept, and returns the further of the two. Relaxed:
  /// an end is valid without any other data.
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
  /// The count that `booked_` may reach; at first nothing waits.
  typename Sync::template Atomic<std::uint64_t> end_;
  alignas(base::kCacheLine) typename Sync::template Atomic<std::uint64_t> reserved_{0};
  typename Sync::template Atomic<std::uint64_t> released_{0};
};

}  // namespace reprise::limiter
