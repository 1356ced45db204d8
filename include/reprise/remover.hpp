#pragma once

#include <variant>

namespace reprise {

/// Evicts the oldest chunk's items first, in order, one step for each step beyond the capacity.
/// Exactly first in, first out for one writer and one shard; with several writers, chunks leave in
/// the order in which they received their first item, and each shard keeps its share of the
/// capacity, so across shards the order is that of whole chunks, nearly.
struct Fifo {
  friend bool operator==(const Fifo&, const Fifo&) = default;
};

using Remover = std::variant<Fifo>;

}  // namespace reprise
