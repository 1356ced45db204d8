#pragma once

#include <reprise/remote.hpp>

#include "base/random.hpp"
#include "window/batch_store.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::remote {

/// A batch that was begun, and which of its places each shard fills.
///
/// The totals by which its draws were allotted stay as they were. A shard that is left out gives
/// all its places to the other shards, and its total becomes 0. The sum of the totals that are left
/// then says with what probability each draw of the batch was made.
///
/// Every shard with weight has a run, possibly of no draw, and the batch is ready only once all
/// these shards have answered. Otherwise the loss of a shard without draws would not be noticed.
///
/// One thread at a time.
class Draft {
 public:
  /// What was known of a shard when the batch was begun.
  struct Known {
    double total = 0.0;  ///< If 0, the shard has no part in the batch.
    double min_positive = 0.0;
    double items = 0.0;
  };
  /// Consecutive places of the batch that one shard fills with one draw.
  struct Run {
    std::uint64_t id = 0;
    std::size_t shard = 0;
    std::size_t begin = 0;          ///< The first of the places.
    std::size_t count = 0;          ///< 0: the shard is only asked whether it is alive.
    std::uint64_t incarnation = 0;  ///< The incarnation of the shard that filled the places.
    bool asked = false;             ///< A request for the run was made.
    bool filled = false;
  };

  /// At least one shard must have weight, and the batch room for the places [offset, offset + n).
  Draft(window::BatchStore& batch, std::size_t offset, std::size_t n, const SampleOptions& options,
        std::vector<Known> known, base::Random& random);

  [[nodiscard]] Draws draws() const noexcept { return draws_; }
  [[nodiscard]] bool unique_frames() const noexcept { return batch_.unique_frames; }
  [[nodiscard]] const window::Targets& targets() const noexcept { return targets_; }
  [[nodiscard]] std::span<Run> runs() noexcept { return runs_; }
  [[nodiscard]] std::span<const Run> runs() const noexcept { return runs_; }
  /// The run of this id; null if its places were given to other shards.
  [[nodiscard]] Run* find(std::uint64_t id) noexcept;
  /// Copies the items of an answer into a run's places.
  void fill(Run& run, const window::BatchStore& answer, std::uint64_t incarnation) noexcept;
  /// Like the function above, for a run without places.
  static void fill(Run& run, std::uint64_t incarnation) noexcept;
  /// Whether the shard has a run that is not filled.
  [[nodiscard]] bool waits_for(std::size_t shard) const noexcept;
  [[nodiscard]] bool ready() const noexcept;
  /// Whether all shards were left out.
  [[nodiscard]] bool nothing_left() const noexcept { return runs_.empty(); }
  /// Whether a shard was left out because its rate limiter admitted no draw in time.
  bool timed_out = false;

  /// Gives the shard's places to the other shards. Returns how many places these were.
  std::size_t leave_out(std::size_t shard, base::Random& random);
  /// Computes probabilities and weights. Returns which shard filled each place.
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
  const window::Targets targets_;
  std::vector<Known> known_;
  std::vector<Run> runs_;
  std::uint64_t next_run_ = 0;
};

}  // namespace reprise::remote
