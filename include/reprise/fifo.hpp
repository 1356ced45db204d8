#pragma once

#include <reprise/remover.hpp>
#include <reprise/selector.hpp>

#include <memory>

namespace reprise {

/// First in, first out: as a remover and as a selector.
///
/// As the remover it evicts the steps of the oldest chunk first, one step for each step beyond the
/// capacity. With one writer and one shard this is exactly first in, first out. With several
/// writers, chunks leave in the order in which they received their first item, filled or not; each
/// shard keeps its share of the capacity, so across shards the order is nearly that of whole
/// chunks. A writer that follows another counts as several. With a limit of draws
/// (`Options::max_times_sampled`), a chunk whose oldest step is exhausted goes before others.
///
/// As a selector it draws the items that were decided first, oldest first. With
/// `Options::max_times_sampled` = 1 it draws every item once: a queue. A batch holds the first n
/// items of the whole buffer, each once; every probability and every weight is 1, and
/// `SampleOptions::draws` is ignored. The call needs n items that can be drawn. The result is exact
/// for sequenced calls, and always for the items of each writer; a call holds all shards' locks
/// while it draws. Cost: O(n log(items)), 8 bytes more per row, and one counter that all writers
/// share.
struct Fifo {
  /// None, because a shard evicts first in, first out without a remover.
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks&) const {
    return nullptr;
  }
  /// Called by each buffer with this selector.
  [[nodiscard]] std::unique_ptr<SelectorRule> make_selector_rule() const;

  friend bool operator==(const Fifo&, const Fifo&) = default;
};

}  // namespace reprise
