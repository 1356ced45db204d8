#pragma once

#include "base/cache_line.hpp"
#include "base/sync.hpp"

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

}  // namespace reprise::limiter
