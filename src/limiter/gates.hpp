#pragma once

#include "base/sync.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace reprise::limiter {

/// The largest block of inserts that a writer books at a time.
inline constexpr double kMaxBlock = 64.0;

/// How far samples and inserts may run ahead of each other.
struct Ratio {
  std::size_t min_size = 1;         ///< Items resident before anything is sampled.
  double samples_per_insert = 0.0;  ///< The first ratio; 0 if the limiter has no ratio.
  double error_buffer = 0.0;        ///< Bound of the balance either way, in sampled items.
  double block_samples = 0.0;       ///< What a block of inserts should be worth, in sampled items.
};

/// The ratio that is held, and how inserts at earlier ratios change the balance.
struct RatioTerms {
  double samples_per_insert = 0.0;
  /// What the balance adds to S - samples_per_insert * (I - min_size), because inserts count at the
  /// ratio at which they were booked.
  double offset = 0.0;
};

/// The counts of a rate limiter and its two gates. Any thread, lock-free; it never sleeps.
///
/// Both gates use the same counts. A change that can open a gate is sequentially consistent, and so
/// is the load with which a waiting thread looks at it (E1). The other accesses, except those of
/// the terms, are relaxed, because only the number matters.
///
/// One word, `inserts_`, counts both the inserts and the changes of the ratio. So a change is made
/// at a known number of inserts, and a writer that books inserts has the terms at which these
/// count. The terms are in one of two slots, by turns: a reader of a slot that is overwritten
/// meanwhile finds another count of changes.
template <class Sync>
class RatioGate {
 public:
  explicit RatioGate(const Ratio& ratio) noexcept : ratio_(ratio) {
    restore(0, 0, {ratio.samples_per_insert, 0.0});
  }

  [[nodiscard]] const Ratio& ratio() const noexcept { return ratio_; }
  [[nodiscard]] RatioTerms terms() const noexcept { return look().terms; }

  /// Books a block of inserts and returns how many; 0 if writers are too far ahead. `resident`:
  /// items that can be sampled; while they are fewer than `min_size`, no insert waits.
  [[nodiscard]] std::size_t book_inserts(std::size_t resident) noexcept {
    for (;;) {
      // A count that is too low makes the exchange fail. A count that is too high, because a writer
      // has returned inserts meanwhile, can only refuse the booking, and a refused writer asks
      // again.
      const Seen seen = look();
      const std::size_t booked = block(seen.terms);
      const std::uint64_t after = seen.inserts() + booked;
      const bool needed = after <= ratio_.min_size || resident < ratio_.min_size;
      // E1: seq_cst, a waiting writer's look; partner: the exchange in admit_samples.
      if (!needed && holds(seen.terms, samples_.load(base::Order::SeqCst), after)) {
        return 0;
      }
      std::uint64_t word = seen.word;
      // E1: seq_cst, progress of waiting samplers; partner: their load.
      if (inserts_.compare_exchange(word, word + (std::uint64_t{booked} << kChangeBits),
                                    base::Order::SeqCst, base::Order::Relaxed)) {
        return booked;
      }
    }
  }

  /// Gives back inserts that a writer booked and did not make, at the present ratio, whatever the
  /// ratio was when they were booked. Relaxed: nobody waits for this.
  void return_inserts(std::size_t inserts) noexcept {
    inserts_.fetch_sub(std::uint64_t{inserts} << kChangeBits, base::Order::Relaxed);
  }

  /// Counts a batch; false if samplers are too far ahead. A batch is also let through while writers
  /// are held: that happens only after a change of the ratio, with a batch that
  /// `Limiter::check_batch` refuses at the new one.
  [[nodiscard]] bool admit_samples(std::size_t items) noexcept {
    for (;;) {
      // E1: seq_cst, a waiting sampler's look; partners: return_samples, and the exchanges in
      // book_inserts and set.
      std::uint64_t samples = samples_.load(base::Order::SeqCst);
      if (limits()) {
        const Seen seen = look();
        if (balance(seen.terms, samples + items, seen.inserts()) > ratio_.error_buffer &&
            !holds(seen.terms, samples, seen.inserts() + block(seen.terms))) {
          return false;
        }
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

  /// Sets the ratio for the inserts booked from now on; the balance stays what it was. One thread
  /// at a time, and only if there is a ratio.
  void set(double samples_per_insert) noexcept {
    // Relaxed, here and where the exchange fails: an old count makes the exchange fail. No other
    // thread writes the slots.
    std::uint64_t word = inserts_.load(base::Order::Relaxed);
    for (;;) {
      const Slot& now = slots_[word % 2];
      Slot& next = slots_[(word + 1) % 2];
      const double before = now.samples_per_insert.load(base::Order::Relaxed);
      const double offset = now.offset.load(base::Order::Relaxed);
      const double counted = std::max(0.0, beyond_min_size(word >> kChangeBits));
      // T2: release; partner: the loads in look.
      next.samples_per_insert.store(samples_per_insert, base::Order::Release);
      next.offset.store(offset + (samples_per_insert - before) * counted, base::Order::Release);
      const std::uint64_t changed = (word & ~kChangeMask) | ((word + 1) & kChangeMask);
      // T1 and E1: seq_cst, progress of waiting writers and samplers; partner: the load in look.
      if (inserts_.compare_exchange(word, changed, base::Order::SeqCst, base::Order::Relaxed)) {
        return;
      }
    }
  }

  // The counts for a checkpoint. Relaxed: beside other threads they are those of about that moment.
  [[nodiscard]] std::uint64_t inserts() const noexcept {
    return inserts_.load(base::Order::Relaxed) >> kChangeBits;
  }
  [[nodiscard]] std::uint64_t samples() const noexcept {
    return samples_.load(base::Order::Relaxed);
  }
  /// Call it only before any other thread uses the gate.
  void restore(std::uint64_t inserts, std::uint64_t samples, const RatioTerms& terms) noexcept {
    inserts_.store(inserts << kChangeBits, base::Order::Relaxed);
    samples_.store(samples, base::Order::Relaxed);
    slots_[0].samples_per_insert.store(terms.samples_per_insert, base::Order::Relaxed);
    slots_[0].offset.store(terms.offset, base::Order::Relaxed);
  }

  /// Makes the balance that of a gate whose samples have kept up with all inserts so far: 0 once
  /// `min_size` were made. Call it only before any other thread uses the gate.
  void balance_out() noexcept {
    RatioTerms even = terms();
    even.offset = even.samples_per_insert * std::max(0.0, beyond_min_size(inserts())) -
                  static_cast<double>(samples());
    restore(inserts(), samples(), even);
  }

  [[nodiscard]] bool limits() const noexcept { return ratio_.samples_per_insert > 0.0; }
  /// How many inserts are booked at a time.
  [[nodiscard]] std::size_t block(const RatioTerms& terms) const noexcept {
    return static_cast<std::size_t>(
        std::clamp(ratio_.block_samples / terms.samples_per_insert, 1.0, kMaxBlock));
  }

  /// By how many sampled items samples (positive) or inserts (negative) are ahead of the ratio.
  /// Relaxed: for statistics.
  [[nodiscard]] double ahead() const noexcept {
    const Seen seen = look();
    return balance(seen.terms, samples_.load(base::Order::Relaxed), seen.inserts());
  }

 private:
  /// Bits of `inserts_` that count changes of the ratio. A thread would have to stand still for
  /// 2^16 changes to mistake new terms for old ones, and then one batch would count at the old
  /// ones.
  static constexpr unsigned kChangeBits = 16;
  static constexpr std::uint64_t kChangeMask = (std::uint64_t{1} << kChangeBits) - 1;

  struct Slot {
    typename Sync::template Atomic<double> samples_per_insert{0.0};
    typename Sync::template Atomic<double> offset{0.0};
  };
  /// The word of the inserts, and the terms that it names, at one moment.
  struct Seen {
    std::uint64_t word;
    RatioTerms terms;
    [[nodiscard]] std::uint64_t inserts() const noexcept { return word >> kChangeBits; }
  };

  [[nodiscard]] Seen look() const noexcept {
    for (;;) {
      // T1 and E1: seq_cst, the look of a waiting writer or sampler; partners: the exchanges in set
      // and book_inserts.
      const std::uint64_t word = inserts_.load(base::Order::SeqCst);
      const Slot& slot = slots_[word % 2];
      // T2: acquire; partner: the stores in set. The last load is relaxed: a reader of overwritten
      // terms has acquired the change before them, so this load sees that change or a later one.
      const RatioTerms terms{slot.samples_per_insert.load(base::Order::Acquire),
                             slot.offset.load(base::Order::Acquire)};
      if ((inserts_.load(base::Order::Relaxed) & kChangeMask) == (word & kChangeMask)) {
        return {word, terms};
      }
    }
  }

  [[nodiscard]] double beyond_min_size(std::uint64_t inserts) const noexcept {
    return static_cast<double>(inserts) - static_cast<double>(ratio_.min_size);
  }
  [[nodiscard]] double balance(const RatioTerms& terms, std::uint64_t samples,
                               std::uint64_t inserts) const noexcept {
    return static_cast<double>(samples) - terms.samples_per_insert * beyond_min_size(inserts) +
           terms.offset;
  }
  /// Whether writers have to wait, because with `inserts` they would be too far ahead of samplers.
  [[nodiscard]] bool holds(const RatioTerms& terms, std::uint64_t samples,
                           std::uint64_t inserts) const noexcept {
    return balance(terms, samples, inserts) < -ratio_.error_buffer;
  }

  const Ratio ratio_;
  Slot slots_[2];
  alignas(base::kCacheLine) typename Sync::template Atomic<std::uint64_t> inserts_{0};
  alignas(base::kCacheLine) typename Sync::template Atomic<std::uint64_t> samples_{0};
};

/// The two gates of a `Queue`: writers book inserts from the room that is left, samplers reserve
/// items among those that wait to be sampled. Any thread, lock-free; it never sleeps.
///
/// Waiting items are not counted here, because only the shards know them: an insert becomes an item
/// later than it is booked, or never. So callers pass a function that counts them.
///
///  - A writer that looked and saw w waiting items may allow size - w more inserts than were booked
///    before its look. This stays true later, because draws only lower w. So the highest number of
///    bookings found so far is kept, and a writer looks again only when bookings have reached that.
///  - A sampler counts only items that no unfinished batch has reserved. All counts only grow, so
///    no count returns to a value that another thread has read before (no ABA).
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
      // a batch as drawn, the count below lacks the batch's items, and the load below sees the
      // batch's reservation.
      const std::uint64_t released = released_.load(base::Order::SeqCst);
      // Relaxed: with an old value the exchange fails.
      std::uint64_t reserved = reserved_.load(base::Order::Relaxed);
      if (count() < reserved - released + n) {
        return false;
      }
      // Relaxed: the exchange publishes no other data. The exchanges of this one word follow each
      // other, so no two batches get the same items.
      if (reserved_.compare_exchange(reserved, reserved + n, base::Order::Relaxed,
                                     base::Order::Relaxed)) {
        return true;
      }
    }
  }

  /// Ends a reservation: its n items were drawn, or the draw found nothing.
  /// E1: seq_cst, progress of waiting samplers; partner: their load in reserve.
  void release(std::size_t n) noexcept { released_.fetch_add(n, base::Order::SeqCst); }

  /// Call it only before any other thread uses the gate. `waiting`: items in the queue.
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
  /// The count that `booked_` may reach; `size_` at first, as nothing waits.
  typename Sync::template Atomic<std::uint64_t> end_;
  alignas(base::kCacheLine) typename Sync::template Atomic<std::uint64_t> reserved_{0};
  typename Sync::template Atomic<std::uint64_t> released_{0};
};

}  // namespace reprise::limiter
