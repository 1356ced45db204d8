#pragma once

#include <reprise/rate_limiter.hpp>

#include "base/mutex.hpp"
#include "base/sync.hpp"
#include "limiter/gates.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::limiter {

/// Decides when samplers and writers have to wait. Any thread, lock-free. A limiter never sleeps:
/// it only refuses. The refused thread registers with an `Event`, asks again, and then sleeps.
///
/// There are two kinds of limiter: a minimum, with or without a ratio of samples to inserts
/// (`RatioGate`), and a queue (`QueueGate`). Callers pass a function that counts the items
/// (`BufferCore::limiter_items`), because `QueueGate` depends on the moment at which they are
/// counted.
///
/// Writers and samplers never wait for each other at the same time. The two gates of a ratio use
/// the same counts. With error_buffer E, ratio r, block b and batch n, both would be shut only if
/// r * b + n > 2 * E. `check_batch` refuses such a batch, and `RatioGate::admit_samples` lets a
/// batch through that waits while the ratio rises. No insert waits while fewer items are resident
/// than sampling needs, or than a sampler demands (`Turns::demand`). Writers of a queue wait until
/// fewer items than its size are left; samplers wait for at most as many items as its size.
class Limiter {
 public:
  /// Throws std::invalid_argument that names the option, its value and what is allowed.
  Limiter(const RateLimiter& options, std::size_t capacity_steps, std::size_t max_writers);

  /// If false, writers need not call `book_inserts`.
  [[nodiscard]] bool limits_inserts() const noexcept { return is_queue() || ratio_.limits(); }
  /// If true, no writer or sampler ever waits for the limiter.
  [[nodiscard]] bool is_unlimited() const noexcept { return enough() == 0; }
  [[nodiscard]] bool is_queue() const noexcept { return queue_.limits(); }

  /// The number of items from which on a writer may be held: the size of a queue, or the minimum
  /// below which a ratio does not apply.
  [[nodiscard]] std::size_t enough() const noexcept {
    return is_queue() ? queue_.size() : ratio_.ratio().min_size;
  }
  /// The number of items that a batch of n needs before it is drawn.
  [[nodiscard]] std::size_t needed(std::size_t n) const noexcept {
    return is_queue() ? n : ratio_.ratio().min_size;
  }

  /// Books a block of inserts for one writer; 0 if the writer has to wait. `look()` ingests what is
  /// pending and then counts the items; if it cannot count, it returns `enough`.
  template <class Look>
  [[nodiscard]] std::size_t book_inserts(Look look) noexcept {
    if (is_queue()) {
      return queue_.book_inserts(look);
    }
    return ratio_.book_inserts(look());
  }
  /// Gives back inserts that a writer booked and did not make. A queue takes nothing back: its room
  /// is measured anew when it is used up, which lost bookings only bring forward.
  void return_inserts(std::size_t inserts) noexcept {
    if (ratio_.limits()) {
      ratio_.return_inserts(inserts);
    }
  }

  /// Throws std::invalid_argument for a batch that could never be admitted.
  void check_batch(std::size_t items) const;

  /// The counts that a checkpoint stores.
  struct Counts {
    std::uint64_t inserts = 0;
    std::uint64_t samples = 0;
  };
  [[nodiscard]] Counts counts() const noexcept { return {ratio_.inserts(), ratio_.samples()}; }
  /// The ratio that is held.
  [[nodiscard]] RatioTerms terms() const noexcept { return ratio_.terms(); }
  /// Call it only before any other thread uses the limiter. `waiting`: items in the queue.
  void restore(const Counts& counts, std::size_t waiting, const RatioTerms& terms) noexcept {
    ratio_.restore(counts.inserts, counts.samples, terms);
    queue_.restore(waiting);
  }

  /// Lets the ratio begin in balance (`RatioGate::balance_out`). Call it only before any other
  /// thread uses the limiter.
  void balance_out() noexcept { ratio_.balance_out(); }

  enum class Answer : std::uint8_t { Admitted, TooFewItems, AheadOfInserts };
  /// Admits a batch of n and counts it. After an admission the caller has to call `batch_drawn`,
  /// and `return_samples` too if it drew nothing. `count()` counts the items that can be sampled.
  template <class Count>
  [[nodiscard]] Answer admit_samples(std::size_t n, Count count) noexcept {
    if (is_queue()) {
      return queue_.reserve(n, count) ? Answer::Admitted : Answer::TooFewItems;
    }
    if (count() < ratio_.ratio().min_size) {
      return Answer::TooFewItems;
    }
    return ratio_.admit_samples(n) ? Answer::Admitted : Answer::AheadOfInserts;
  }
  /// Ends an admission: the batch has been drawn, or nothing could be drawn.
  void batch_drawn(std::size_t n) noexcept {
    if (is_queue()) {
      queue_.release(n);
    }
  }
  /// Takes back the count of samples that were admitted and not drawn.
  void return_samples(std::size_t n) noexcept {
    if (!is_queue()) {
      ratio_.return_samples(n);
    }
  }

  /// Sets the ratio for inserts booked from now on, if the limiter holds one. The caller has
  /// checked the ratio (`check_ratio`), and wakes the threads that wait.
  void set_samples_per_insert(double samples_per_insert) noexcept REPRISE_EXCLUDES(changing_) {
    const base::MutexLock lock(changing_);
    ratio_.set(samples_per_insert);
  }

  /// How far samples are ahead of the ratio, or behind it. For statistics.
  [[nodiscard]] RatioBalance balance() const noexcept {
    return {ratio_.ahead(), terms().samples_per_insert, ratio_.ratio().error_buffer};
  }
  /// The state in a sentence.
  [[nodiscard]] std::string explain(std::size_t items) const;

 private:
  RatioGate<base::StdSync> ratio_;
  QueueGate<base::StdSync> queue_;
  base::Mutex changing_;  ///< Held while the ratio is changed.
};

/// Throws std::invalid_argument for numbers out of range, and for an error buffer too small for the
/// ratio.
void check_ratio(const SampleToInsertRatio& ratio);

/// The balance in a sentence.
[[nodiscard]] std::string in_words(const RatioBalance& balance);

}  // namespace reprise::limiter
