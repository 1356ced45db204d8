#pragma once

#include <reprise/removers/least_frequently_sampled.hpp>
#include <reprise/removers/least_recently_sampled.hpp>
#include <reprise/removers/lowest_priority.hpp>
#include <reprise/removers/second_chance.hpp>
#include <reprise/selectors/fifo.hpp>
#include <reprise/selectors/heaps.hpp>
#include <reprise/selectors/lifo.hpp>
#include <reprise/selectors/loss_adjusted.hpp>
#include <reprise/selectors/mixture.hpp>
#include <reprise/selectors/proportional.hpp>
#include <reprise/selectors/rank_based.hpp>
#include <reprise/selectors/recency.hpp>
#include <reprise/selectors/uniform.hpp>
#include <reprise/strategy_kind.hpp>

#include <span>

namespace reprise {

/// Strategies by type. A strategy's index is its number in checkpoints, so a new one goes to the
/// end.
template <class... Strategies>
struct StrategyList {};
/// The selectors of the library.
using SelectorList = StrategyList<Uniform, Proportional, RankBased, Fifo, Lifo, MinHeap, MaxHeap,
                                  Recency, LossAdjusted, Mixture>;
/// The removers of the library.
using RemoverList =
    StrategyList<Fifo, SecondChance, LeastRecentlySampled, LeastFrequentlySampled, LowestPriority>;

/// The descriptions of the selectors of the list, in its order.
[[nodiscard]] std::span<const StrategyKind<Selector>> selectors() noexcept;
/// The descriptions of the removers, in the same way.
[[nodiscard]] std::span<const StrategyKind<Remover>> removers() noexcept;

}  // namespace reprise
