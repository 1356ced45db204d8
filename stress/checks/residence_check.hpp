#pragma once

#include <reprise/options.hpp>

#include "threads/shared.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace stress {

/// How long items stayed, and how long threads waited.
struct Residence {
  double oldest_drawn = 0.0;  ///< Age of the oldest item drawn, in capacities.
  double oldest = 0.0;        ///< Age of the oldest item there at the end of a buffer.
  double least_used = 1.0;    ///< Share of the capacity, once a buffer was full.
  std::uint64_t drawn = 0;    ///< Items whose age is promised.
  std::uint64_t drawn_too_old = 0;
  std::uint64_t left = 0;  ///< Items.
  std::uint64_t never_drawn = 0;
  /// Waits for the rate limiter, and the most times that others were let in during one.
  struct Waits {
    std::uint64_t count = 0;
    std::uint64_t longest = 0;
  } samplers, writers;
};

/// Judges how old items become (I13), how much of the capacity is in use, which items are never
/// drawn, and how often others were let in while somebody waited (I12). One thread.
///
/// Ages are promised of `Fifo` without a limit of draws. Other removers keep what is drawn, or what
/// weighs much, for as long as that is so, and exhausted items go before older ones.
class ResidenceCheck {
 public:
  /// `residence`: takes the figures.
  ResidenceCheck(Shared& shared, Residence& residence) : shared_(shared), residence_(residence) {}

  /// Call it from time to time, while others run or stand still.
  void in_passing();
  /// Call it while all stand still and everything is ingested.
  void at_rest(const reprise::Stats& stats);
  /// Call it once the threads are gone.
  void turns();
  /// The last call. `alone`: since the call before, one thread alone appended so much that all that
  /// had been there could leave.
  void at_end(const reprise::Stats& stats, bool alone);

  /// Judges the figures of all buffers: a thread that gets no processor while it holds a shard's
  /// lock keeps what is in the shard, and with it others who wait for the lock, so for a while
  /// items there are too old; but most items drawn are not.
  static void judge(const Residence& residence, Findings& findings);

 private:
  void expect(bool holds, Finding finding, const std::string& words);
  [[nodiscard]] bool promises_age() const;
  /// The most items that may leave without ever having been drawn; none: any number.
  [[nodiscard]] std::optional<double> most_undrawn() const;
  /// `by_chunk`: some of the waits may be for a chunk.
  void check_turns(const Turns& turns, bool by_turns, bool by_chunk, const char* who,
                   Residence::Waits& waits);
  /// The inserts that a rate limiter may let through beyond its balance.
  [[nodiscard]] double room() const;
  [[nodiscard]] double capacities(std::uint64_t steps) const {
    return static_cast<double>(steps) / static_cast<double>(shared_.options.capacity_steps);
  }

  Shared& shared_;
  Residence& residence_;
  bool full_ = false;
};

}  // namespace stress
