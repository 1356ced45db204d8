#pragma once

#include <reprise/remover.hpp>

#include <memory>

namespace reprise {

/// Evicts chunks in the order in which they were filled, but spares a chunk if an item of it was
/// sampled since it was last spared: it goes to the end of the order, once for all such samples
/// (the clock algorithm; Corbato, "A Paging Experiment with the Multics System", 1968). The first
/// time it is spared in any case: else, where all others were sampled, the newest chunk would go.
///
/// Age: a chunk stays for as long as it is drawn from before each of its turns. Without draws, and
/// where batches draw from all chunks between two evictions, steps leave first in, first out. Even
/// draws in between tell chunks apart by chance only: as if any chunk were evicted, up to one step
/// in 20 becomes older than 3 capacities, one in 10 leaves within a tenth of a capacity, and with r
/// draws per step that arrives 1 / (1 + r) of the steps are never drawn.
///
/// Cost: O(1) per item sampled and per chunk evicted, amortised: a chunk is spared at most once per
/// batch that drew from it.
struct SecondChance {
  /// Called by each shard with this remover.
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks& chunks) const;

  friend bool operator==(const SecondChance&, const SecondChance&) = default;
};

}  // namespace reprise
