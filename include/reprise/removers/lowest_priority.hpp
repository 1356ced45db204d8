#pragma once

#include <reprise/remover.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace reprise {

/// Evicts the chunk of the lowest priority: of a few candidates picked at random, the one whose
/// steps have the lowest mean weight. Among equals the chunk that was filled first goes.
///
/// The mean is the present sum of the chunk's weights in one selector, divided by its steps; a step
/// without an item weighs 0. So eviction makes room at the cost of the least weight (de Bruin,
/// Kober, Tuyls and Babuska, "Experience Selection in Deep Reinforcement Learning for Control",
/// JMLR 2018).
///
/// The remaining items are then no fair sample of the committed ones, and importance weights do not
/// correct that.
///
/// Age: a chunk that weighs more than others stays for as long as that is so, for ever if nobody
/// lowers its priorities; a chunk that weighs less goes at once, drawn or not. With a selector that
/// weighs all steps alike the candidate that was filled first goes, and hardly any step becomes
/// older than 2 capacities.
///
/// Cost: O(candidates * log steps) per chunk evicted.
struct LowestPriority {
  /// The selector whose weights count, by its place in `Options::selectors`.
  std::size_t selector = 0;
  /// Chunks compared, 1 to 256: the victim is expected among the 1 / (candidates + 1) of lowest
  /// priority. A shard of no more chunks compares them all.
  std::uint32_t candidates = 8;

  /// Throws `std::invalid_argument` if an option is out of range.
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks& chunks) const;
  /// Its name and options.
  [[nodiscard]] static StrategyKind<Remover> remover_kind();

  friend bool operator==(const LowestPriority&, const LowestPriority&) = default;
};

}  // namespace reprise
