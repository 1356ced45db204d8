#pragma once

#include <reprise/remover.hpp>

#include <cstdint>
#include <memory>

namespace reprise {

/// Evicts the chunk that is sampled least often: of a few candidates picked at random, the one with
/// the fewest draws per step. Among equals the chunk that was filled first goes.
///
/// Counts are halved each time the shard has given as many items to batches as it has steps in
/// filled chunks, so that old draws count less (aging as in Einziger, Friedman and Manes,
/// "TinyLFU", ACM Transactions on Storage, 2017). A chunk begins with one draw per step, the
/// average after a halving, so that a new chunk does not go before it could be drawn.
///
/// Cost: O(1) amortised per item sampled, O(candidates) per chunk evicted.
struct LeastFrequentlySampled {
  /// Chunks compared, 1 to 256: the victim is expected among the 1 / (candidates + 1) that are
  /// sampled least often. A shard of no more chunks compares them all.
  std::uint32_t candidates = 8;

  /// Throws `std::invalid_argument`.
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks& chunks) const;

  friend bool operator==(const LeastFrequentlySampled&, const LeastFrequentlySampled&) = default;
};

}  // namespace reprise
