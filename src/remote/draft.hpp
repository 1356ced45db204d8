#pragma once

#include <reprise/remote.hpp>

#include "base/random.hpp"
#include "window/batch_store.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::remote {

/// A batch that was begun: which of its places each shard fills.
///
/// The totals that its draws were allotted by stay as they were. A shard that is left out gives all
/// its places to the others, and its total becomes 0; then the other totals, by their sum, say
/// with what probability each draw of the batch was made.
///
/// Every shard with weight has a run in each round, if of no draw: the batch is not ready before it
/// has answered. Otherwise a loss would be noticed only if it was drawn from.
///
/// One thread at a time.
class Draft {
 public:
  /// A shard when the batch was begun.
  struct Known {
    double total = 0.0;  ///< 0: the shard has no part in the batch.
    double min_positive = 0.0;
    double items = 0.0;
  };
  /// Consecutive places that one shard fills with one draw.
  struct Run {
    std::uint64_t id = 0;
    std::size_t shard = 0;
    std::size_t begin = 0;  ///< In the draft.
    std::size_t count = 0;
    std::uint64_t incarnation = 0;  ///< That filled it.
    bool asked = false;
    bool filled = false;
  };

  /// Some shard has weight. The batch has room for [offset, offset + n).
  Draft(window::BatchStore& batch, std::size_t offset, std::size_t n, const SampleOptions& options,
        std::vector<Known> known, base::Random& random);

  [[nodiscard]] Draws draws() const noexcept { return draws_; }
  [[nodiscard]] bool unique_frames() const noexcept { return batch_.unique_frames; }
  [[nodiscard]] std::span<Run> runs() noexcept { return runs_; }
  [[nodiscard]] std::span<const Run> runs() const noexcept { return runs_; }
  /// Null if it was allotted again.
  [[nodiscard]] Run* find(std::uint64_t id) noexcept;
  /// Copies the items of an answer into a run's places.
  void fill(Run& run, const window::BatchStore& answer, std::uint64_t incarnation) noexcept;
  /// As `fill` for a run of no draw.
  static void fill(Run& run, std::uint64_t incarnation) noexcept;
  /// Whether the shard has places that it has not filled.
  [[nodiscard]] bool waits_for(std::size_t shard) const noexcept;
  [[nodiscard]] bool ready() const noexcept;
  /// All shards were left out.
  [[nodiscard]] bool nothing_left() const noexcept { return runs_.empty(); }

  /// Gives the shard's places to the others. Returns how many there were.
  std::size_t leave_out(std::size_t shard, base::Random& random);
  /// Probabilities and weights.
  ShardClient::Origins finish() noexcept(false);

 private:
  struct Places {
    std::size_t begin;
    std::size_t count;
  };
  void allot(std::vector<Places> places, base::Random& random);

  window::BatchStore& batch_;
  const std::size_t offset_;
  const std::size_t n_;
  const float beta_;
  const Normalise normalise_;
  const Draws draws_;
  std::vector<Known> known_;
  std::vector<Run> runs_;
  std::uint64_t next_run_ = 0;
};

}  // namespace reprise::remote
