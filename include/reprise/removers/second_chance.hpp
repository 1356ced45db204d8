#pragma once

#include <reprise/remover.hpp>

#include <memory>

namespace reprise {

/// Evicts chunks in the order in which they were filled, but spares a chunk if an item of it was
/// sampled since it was filled or last spared: it goes to the end of the order, once for all such
/// samples (the clock algorithm; Corbato, "A Paging Experiment with the Multics System", 1968).
///
/// Cost: O(1) per item sampled and per chunk evicted, amortised: a chunk is spared at most once per
/// batch that drew from it.
struct SecondChance {
  /// Called by each shard with this remover.
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks& chunks) const;

  friend bool operator==(const SecondChance&, const SecondChance&) = default;
};

}  // namespace reprise
