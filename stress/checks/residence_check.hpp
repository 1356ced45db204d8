#pragma once

#include <reprise/options.hpp>

#include "testing/library.hpp"
#include "threads/shared.hpp"

namespace stress {

/// How long items stayed in the buffer, and how long threads waited.
struct Residence {
  double oldest_drawn = 0.0;  ///< Age of the oldest item drawn, in capacities.
  double oldest = 0.0;        ///< Age of the oldest item at the end of a buffer, in capacities.
  double min_used = 1.0;      ///< Least share of the capacity in use after a buffer was full.
  std::uint64_t drawn = 0;    ///< Items drawn from buffers in which the age is bounded.
  std::uint64_t drawn_too_old = 0;
  std::uint64_t left = 0;  ///< Items that have left.
  std::uint64_t never_drawn = 0;
  /// Waits for the rate limiter: how many there were, and how often the limiter let other threads
  /// go on during one wait, at most.
  struct Waits {
    std::uint64_t count = 0;
    std::uint64_t max_let_in = 0;
  } samplers, writers;
};

/// Who appended enough steps since the check before to evict all items.
enum class LastAppends : std::uint8_t { OfOneThread, OfMany };

/// Checks how old items become (I13), how much of the capacity is in use, which items are never
/// drawn, and how often the rate limiter let other threads go on while one waited (I12). One
/// thread.
///
/// Only `Fifo` without a limit of draws bounds ages. Other removers keep items that are drawn or
/// have high priorities, and exhausted items leave before older ones.
class ResidenceCheck {
 public:
  /// `residence` sums the figures of several buffers; this object adds those of one.
  ResidenceCheck(Shared& shared, Residence& residence) : shared_(shared), residence_(residence) {}

  /// Call it from time to time, while other threads run or stand still.
  void check_while_running();
  /// Call it while all threads stand still and everything is ingested.
  void check_quiescent(const reprise::Stats& stats);
  /// Checks the waits. Call it once the threads have ended.
  void check_all_turns();
  /// The last check.
  void check_at_end(const reprise::Stats& stats, LastAppends last);

  /// Checks the sums over all buffers. A thread that is not scheduled while it holds a shard's lock
  /// keeps the items of that shard, and makes others wait for the lock. So for a while some items
  /// may be too old: an eighth of the drawn ones, and a fixed number more, as a few prove nothing.
  static void check_totals(const Residence& residence, Findings& findings);

 private:
  void expect(bool holds, Finding finding, const std::string& words);
  [[nodiscard]] bool bounds_age() const;
  /// The most items that may leave without having been drawn; without a value there is no bound.
  [[nodiscard]] std::optional<double> max_undrawn() const;
  /// Checks the waits of `who`, of whom the one that waits longest goes on first; but so many waits
  /// may have been for a free chunk instead, which are not by turns.
  void check_turns(const Turns& turns, std::uint64_t chunk_waits, const char* who,
                   Residence::Waits& waits);
  void check_ages(const Arrivals::Items& items, LastAppends last);
  void check_found(const Arrivals::Items& items, const reprise::Stats& stats);
  void check_undrawn(const Arrivals::Items& items);
  /// The number of inserts that a rate limiter may let through beyond its balance.
  [[nodiscard]] double room() const;
  [[nodiscard]] double capacities(std::uint64_t steps) const {
    return static_cast<double>(steps) / static_cast<double>(shared_.options.capacity_steps);
  }

  Shared& shared_;
  Residence& residence_;
  bool full_ = false;
};

}  // namespace stress
