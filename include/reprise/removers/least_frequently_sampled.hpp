#pragma once

#include <reprise/remover.hpp>

#include <cstdint>
#include <memory>

namespace reprise {

/// Evicts the chunk that is sampled least often: of a few candidates picked at random, the one with
/// the lowest score. Among equals the chunk that was filled first goes.
///
/// The score is the number of draws per step that the chunk had since it was filled (draws while a
/// writer still filled it do not count), divided by the average of the shard's filled chunks in
/// that time, and halved with each capacity of newer steps.
/// Both numbers begin with one draw per step, so a new chunk is neither ahead of the others nor
/// behind them, and few draws hardly change its score.
///
/// Age: where draws do not tell chunks apart, or there are none, steps leave nearly first in, first
/// out. Hardly any step becomes older than 2 capacities: only one chunk in e^(candidates * x) is
/// not compared while x capacities arrive. A chunk that is drawn h times as often as others stays
/// about log2(h) capacities longer, whether draws go on or not, so nothing stays for ever: in a
/// shard of M chunks, 8 or more, with r draws per step that arrives, a chunk that is compared
/// becomes at most 3 + log2(M * (1 + r)) capacities old, even if it alone is drawn.
///
/// Cost: O(1) per item sampled, O(candidates) per chunk evicted.
struct LeastFrequentlySampled {
  /// Chunks compared, 1 to 256: the victim is expected among the 1 / (candidates + 1) that are
  /// sampled least often. A shard of no more chunks compares them all.
  std::uint32_t candidates = 8;

  /// Throws `std::invalid_argument` if `candidates` is out of range.
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks& chunks) const;
  /// Its name and options.
  [[nodiscard]] static StrategyKind<Remover> remover_kind();

  friend bool operator==(const LeastFrequentlySampled&, const LeastFrequentlySampled&) = default;
};

}  // namespace reprise
