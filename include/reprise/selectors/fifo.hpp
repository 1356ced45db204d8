#pragma once

#include <reprise/remover.hpp>
#include <reprise/selector.hpp>

#include <memory>

namespace reprise {

/// First in, first out: as a remover and as a selector.
///
/// As the remover it evicts the steps of the oldest chunk first, one step for each step beyond the
/// capacity. Chunks leave in the order in which they received their first item, filled or not: in a
/// shard exactly, over the shards to within a chunk per shard. So with one writer and one shard
/// this is exactly first in, first out. A step's age, counted in steps that were decided after it,
/// is at most the capacity, one chunk (`Options::chunk_steps`) for each writer that was ever alive
/// beside others, and one per shard. There is an exception with several threads: while a thread
/// that holds a shard's lock gets no processor, the other shards evict, so that no writer waits for
/// that thread. The steps of its shard then become older by as many steps as the others evicted,
/// also at rest, until later steps evict them. With `Options::max_times_sampled` or
/// `Options::max_staleness`, exhausted or outdated steps at the front of a chunk leave before other
/// steps, which stay longer by the same number.
///
/// The whole chunk leaves when the turn of its first item comes, so a slow writer has less than its
/// part of the buffer: one that appends 1 step in 1,000 has 0.54 of its part, and 256 equal writers
/// of a buffer of 10,000 steps have 0 to 93 items each, where 39 would be even. Smaller chunks are
/// fairer and cost each writer more.
///
/// As a selector it draws the items that were decided first, oldest first. With
/// `Options::max_times_sampled` = 1 it draws every item once: a queue. A batch holds the first n
/// items of the whole buffer, each once; every probability and every weight is 1.
/// `SampleOptions::draws` changes nothing, but `Draws::Epoch` is refused. The call needs n items
/// that can be drawn. The result is exact for sequenced calls, and always for the items of each
/// writer; a call holds all shards' locks while it draws. Cost: O(n log(items)), 8 bytes more per
/// row, and one counter that all writers share.
struct Fifo {
  /// Returns null, because a shard without a remover evicts first in, first out.
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks&) const {
    return nullptr;
  }
  /// Called by each buffer with this selector.
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const;
  /// Its name, as a selector.
  [[nodiscard]] static StrategyKind<Selector> selector_kind();
  /// Its name, as a remover.
  [[nodiscard]] static StrategyKind<Remover> remover_kind();

  friend bool operator==(const Fifo&, const Fifo&) = default;
};

}  // namespace reprise
