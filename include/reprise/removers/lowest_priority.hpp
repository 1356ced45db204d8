#pragma once

#include <reprise/remover.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace reprise {

/// Evicts the chunk of the lowest priority: of a few candidates picked at random, the one whose
/// steps weigh least on average. Of equal ones the one filled first goes.
///
/// What counts is the sum of the chunk's weights in one selector, as they are at that moment,
/// divided by the steps that it takes up, which differ between chunks where episodes are short; a
/// step with which no item begins weighs 0. So it gives up the least weight for the room it makes
/// (keeping what has high priority; de Bruin, Kober, Tuyls and Babuska, "Experience Selection in
/// Deep Reinforcement Learning for Control", JMLR 2018).
///
/// What stays is then no fair sample of what was committed, and importance weights do not make it
/// one. With a selector that weighs all steps alike the candidate filled first goes.
///
/// Cost: O(candidates * log steps) per chunk evicted.
struct LowestPriority {
  std::size_t selector = 0;  ///< Whose weights, by its place in `Options::selectors`.
  /// Chunks compared, 1 to 256: the victim is expected among the 1 / (candidates + 1) of lowest
  /// priority. A shard of no more chunks compares them all.
  std::uint32_t candidates = 8;

  /// Throws `std::invalid_argument`.
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks& chunks) const;

  friend bool operator==(const LowestPriority&, const LowestPriority&) = default;
};

}  // namespace reprise
