#pragma once

#include <reprise/remover.hpp>
#include <reprise/selector.hpp>

#include <memory>

namespace reprise {

/// First in, first out: as a remover and as a selector.
///
/// As the remover it evicts the oldest chunk's steps first, in order, one step for each step beyond
/// the capacity. Exactly first in, first out for one writer and one shard; with several writers,
/// chunks leave in the order in which they received their first item, filled or not, and each shard
/// keeps its share of the capacity, so across shards the order is that of whole chunks, nearly. A
/// writer that follows another counts as several. Where draws are limited
/// (`Options::max_times_sampled`), a chunk whose oldest step was drawn for the last time goes
/// before others.
///
/// As a selector it draws the items that were decided first, oldest first; with
/// `Options::max_times_sampled` = 1 every item once, in order: a queue. Draws in order leave
/// nothing to chance: a batch holds the first n items of the whole buffer, each once; every
/// probability and every weight is 1, and `SampleOptions::draws` means nothing. The call needs n
/// items that can be drawn. Exact for sequenced calls, and for the items of each writer in any
/// case; a call holds all shards' locks while it draws. Cost: O(n log(items)), 8 bytes more per
/// row, and one counter that all writers share.
struct Fifo {
  /// None: this is what a shard does without being told.
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks&) const {
    return nullptr;
  }
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const;

  friend bool operator==(const Fifo&, const Fifo&) = default;
};

}  // namespace reprise
