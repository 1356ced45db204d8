#pragma once

#include <reprise/rate_limiter.hpp>

#include "base/sync.hpp"
#include "limiter/queue_gate.hpp"
#include "limiter/ratio_gate.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::limiter {

/// Decides when samplers and writers have to wait. Any thread, lock-free; it never sleeps itself:
/// it says no, and whoever asked registers with an `Event`, asks again and sleeps.
///
/// Callers bring a way to count the items that it goes by, `BufferCore::counted`, because when it
/// is done matters to `QueueGate`. There are two kinds of it: a minimum with or without a ratio of
/// samples to inserts (`RatioGate`), and a queue (`QueueGate`).
///
/// The two sides never wait for each other. Of a ratio both gates use the same counts: with
/// error_buffer E, ratio r, block b and batch n, both shut means r * b + n > 2 * E, which is
/// refused; and while too few items are resident to sample, or for what a sampler demands
/// (`Demand`), no insert waits. Of a queue writers wait for fewer items than its size, samplers for
/// at most its size.
class Limiter {
 public:
  /// std::invalid_argument naming the option, its value and what is allowed.
  Limiter(const RateLimiter& options, std::size_t capacity_steps, std::size_t max_writers);

  /// False: writers never have to ask.
  [[nodiscard]] bool limits_inserts() const noexcept { return is_queue() || ratio_.limits(); }
  /// Nobody ever waits.
  [[nodiscard]] bool is_unlimited() const noexcept { return enough() == 0; }
  [[nodiscard]] bool is_queue() const noexcept { return queue_.limits(); }

  /// Items that hold a writer if there are so many: the size of the queue; of a ratio, the minimum
  /// below which it does not apply.
  [[nodiscard]] std::size_t enough() const noexcept {
    return is_queue() ? queue_.size() : ratio_.ratio().min_size;
  }
  /// Items that have to be there before a batch of n is drawn.
  [[nodiscard]] std::size_t needed(std::size_t n) const noexcept {
    return is_queue() ? n : ratio_.ratio().min_size;
  }

  /// Books a block of inserts for one writer; 0 if it has to wait. `look()` counts the items, after
  /// having looked for those that nobody knows of yet, and says `enough` if it cannot tell.
  template <class Look>
  [[nodiscard]] std::size_t book_inserts(Look look) noexcept {
    if (is_queue()) {
      return queue_.book_inserts(look);
    }
    return ratio_.book_inserts(look()) ? ratio_.ratio().block : 0;
  }
  /// Gives back what a writer booked and did not insert.
  void return_inserts(std::size_t inserts) noexcept;

  /// std::invalid_argument for a batch that could never be admitted.
  void check_batch(std::size_t items) const;

  /// What a checkpoint keeps.
  struct Counts {
    std::uint64_t inserts = 0;
    std::uint64_t samples = 0;
  };
  [[nodiscard]] Counts counts() const noexcept { return {ratio_.inserts(), ratio_.samples()}; }
  /// Before any other thread has it. `waiting`: items in the queue.
  void restore(const Counts& counts, std::size_t waiting) noexcept;

  enum class Answer : std::uint8_t { Admitted, TooFewItems, AheadOfInserts };
  /// Admits a batch of n and counts it: then `batch_drawn` has to follow, and `return_samples` if
  /// it came to nothing. `count()` counts the items that can be sampled.
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
  /// An admitted batch has been drawn, or nothing could be.
  void batch_drawn(std::size_t n) noexcept;
  /// Takes back what was admitted and not drawn.
  void return_samples(std::size_t n) noexcept;

  /// How far samples are from the ratio. For statistics.
  [[nodiscard]] RatioBalance balance() const noexcept;
  /// The state in a sentence.
  [[nodiscard]] std::string explain(std::size_t items) const;

 private:
  RatioGate<base::StdSync> ratio_;
  QueueGate<base::StdSync> queue_;
};

/// The same in words.
[[nodiscard]] std::string in_words(const RatioBalance& balance);

}  // namespace reprise::limiter
