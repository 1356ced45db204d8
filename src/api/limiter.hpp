#pragma once

#include <reprise/rate_limiter.hpp>

#include "api/ratio_gate.hpp"
#include "base/sync.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::api {

/// Decides when samplers and writers have to wait. Any thread, lock-free; it never sleeps itself:
/// it says no, and whoever asked registers with an `Event`, asks again and sleeps.
///
/// Both gates use the same counts: inserts booked, items sampled, and items resident against the
/// minimum size. So they can never both be shut for the ratio: with error_buffer E, ratio r, block
/// b and batch n, both shut means r * b + n > 2 * E, which is refused; and while too few items are
/// resident to sample, no insert waits. `RatioGate` has the counts.
class Limiter {
 public:
  /// std::invalid_argument naming the option, its value and what is allowed.
  Limiter(const RateLimiter& options, std::size_t capacity_steps, std::size_t max_writers);

  /// False: writers never have to ask.
  [[nodiscard]] bool limits_inserts() const noexcept { return gate_.limits(); }

  /// Books a block of inserts for one writer; 0 if it has to wait. `resident`: items that can be
  /// sampled.
  [[nodiscard]] std::size_t book_inserts(std::size_t resident) noexcept;
  /// Gives back what a writer booked and did not insert.
  void return_inserts(std::size_t inserts) noexcept;

  /// std::invalid_argument for a batch that could never be admitted.
  void check_batch(std::size_t items) const;

  enum class Answer : std::uint8_t { Admitted, TooFewItems, AheadOfInserts };
  /// Admits a batch and counts it.
  [[nodiscard]] Answer admit_samples(std::size_t items, std::size_t resident) noexcept;
  /// Takes back a batch that could not be drawn after all.
  void return_samples(std::size_t items) noexcept;

  [[nodiscard]] std::size_t min_size() const noexcept { return gate_.ratio().min_size; }

  /// The state in a sentence.
  [[nodiscard]] std::string explain(std::size_t resident) const;

 private:
  RatioGate<base::StdSync> gate_;
};

}  // namespace reprise::api
