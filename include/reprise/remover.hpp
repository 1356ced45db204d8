#pragma once

#include <variant>

namespace reprise {

/// Evicts the oldest chunk's items first, in order, one step for each step beyond the capacity.
/// Exactly first in, first out for one writer; with several, chunks leave in the order in which
/// they received their first item.
struct Fifo {
  friend bool operator==(const Fifo&, const Fifo&) = default;
};

using Remover = std::variant<Fifo>;

}  // namespace reprise
