#pragma once

#include <reprise/remover.hpp>

#include <memory>

namespace reprise {

/// Evicts the oldest chunk's steps first, in order, one step for each step beyond the capacity.
/// Exactly first in, first out for one writer and one shard; with several writers, chunks leave in
/// the order in which they received their first item, filled or not, and each shard keeps its share
/// of the capacity, so across shards the order is that of whole chunks, nearly.
struct Fifo {
  /// None: this is what a shard does without being told.
  [[nodiscard]] std::unique_ptr<ShardRemover> make_shard_remover(const ShardChunks&) const {
    return nullptr;
  }

  friend bool operator==(const Fifo&, const Fifo&) = default;
};

}  // namespace reprise
