#pragma once

#include <reprise/remover.hpp>

#include <memory>

namespace reprise {

/// Evicts chunks in the order in which they were filled, but spares a chunk if an item of it was
/// sampled since it was filled or last spared: the chunk goes to the end of the order, once for all
/// such samples (the clock algorithm; Corbato, "A Paging Experiment with the Multics System",
/// 1968). A chunk whose turn comes early, because others were sampled, is spared as well: until
/// half as many chunks were filled after it as the shard has.
///
/// Age: no chunk leaves before that half, and a chunk stays for as long as it is drawn from before
/// each of its turns. Without draws, and where batches draw from all chunks between two evictions,
/// steps leave first in, first out. Even draws in between tell the older half apart by chance only:
/// up to one step in 100 becomes older than 3 capacities, and with r draws per step that arrives
/// e^(-r / 2) / (1 + r / 2) of the steps are never drawn.
///
/// Cost: O(1) per item sampled and per chunk evicted, amortised: of the older half a chunk is
/// spared at most once per batch that drew from it, and then as many of the younger half are
/// passed.
struct SecondChance {
  /// Called by each shard with this remover.
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks& chunks) const;
  /// Its name and options.
  [[nodiscard]] static StrategyKind<Remover> remover_kind();

  friend bool operator==(const SecondChance&, const SecondChance&) = default;
};

}  // namespace reprise
