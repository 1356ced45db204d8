#pragma once

#include <reprise/remover.hpp>

#include <cstdint>
#include <memory>

namespace reprise {

/// Evicts the chunk that was not sampled for the longest time: of a few candidates picked at
/// random, the one whose last draw is longest ago, or whose filling if no item of it was drawn
/// (Psounis and Prabhakar, "A Randomized Web-Cache Replacement Scheme", 2001). Among chunks last
/// sampled by the same batch the one that was filled first goes.
///
/// It is useful where items that are not drawn lose their value, as with priorities that fall
/// towards 0.
///
/// Age: a chunk from which nearly every batch draws stays for as long as that is so. A chunk that
/// is not drawn any more leaves within about 2 capacities. Even draws tell chunks apart by chance
/// only: as if any chunk were evicted, up to one step in 20 becomes older than 3 capacities, one in
/// 10 leaves within a tenth of a capacity, and with r draws per step that arrives 1 / (1 + r) of
/// the steps are never drawn. Batches that draw from most chunks of a shard come nearer to first
/// in, first out.
///
/// Cost: O(1) per item sampled, O(candidates) per chunk evicted.
struct LeastRecentlySampled {
  /// Chunks compared, 1 to 256: the victim is expected among the 1 / (candidates + 1) that were
  /// sampled least recently. A shard of no more chunks compares them all.
  std::uint32_t candidates = 8;

  /// Throws `std::invalid_argument` if `candidates` is out of range.
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks& chunks) const;
  /// Its name and options.
  [[nodiscard]] static StrategyKind<Remover> remover_kind();

  friend bool operator==(const LeastRecentlySampled&, const LeastRecentlySampled&) = default;
};

}  // namespace reprise
