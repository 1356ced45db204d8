#pragma once

#include <cstddef>
#include <variant>

namespace reprise {

/// Samplers wait until at least this many items can be sampled (with `Sequences`: so many steps are
/// in the buffer, and an item begins with one of them); writers never wait.
struct MinSize {
  std::size_t items = 1;  ///< 1 to capacity_steps.

  friend bool operator==(const MinSize&, const MinSize&) = default;
};

/// Holds sampled items per inserted step near a ratio: samplers wait when they are ahead, and
/// writers wait in `commit` when they are.
///
/// With S items sampled and I steps inserted, the balance is S - samples_per_insert *
/// (I - min_size); samplers wait while it would rise above error_buffer, writers while it would
/// fall below -error_buffer. Nobody waits for the ratio before min_size steps were inserted, nor
/// a writer while fewer than min_size items can be sampled. Writers book inserts in small blocks:
/// the overshoot is at most one block per writer.
///
/// With `Sequences` min_size counts steps, and as 0 while no item begins with any of them.
///
/// One thread that both commits and samples has nobody to wait for: give its writer and its calls
/// of `sample` timeouts.
struct SampleToInsertRatio {
  double samples_per_insert = 1.0;  ///< Above 0, finite.
  std::size_t min_size = 1;         ///< Items, 1 to capacity_steps.
  /// In sampled items: at least max(1, samples_per_insert), and enough that
  /// batch + samples_per_insert * block <= 2 * error_buffer, or both sides could wait for ever.
  double error_buffer = 0.0;

  friend bool operator==(const SampleToInsertRatio&, const SampleToInsertRatio&) = default;
};

using RateLimiter = std::variant<MinSize, SampleToInsertRatio>;

}  // namespace reprise
