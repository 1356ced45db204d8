#pragma once

#include <reprise/item.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::metrics {

/// How often each item was drawn, by its slot. A slot whose generation has changed has another
/// item.
///
/// Thread safety: calls run under the owner's lock.
class DrawCounts {
 public:
  /// Counts a draw, and returns how often the item was drawn so far.
  std::uint32_t add(ItemKey key) {
    const std::size_t slot = key.slot();
    if (slot >= slots_.size()) {
      slots_.resize(std::max(slot + 1, 2 * slots_.size()));
    }
    Slot& counts = slots_[slot];
    if (counts.generation != key.generation()) {
      counts = {.generation = key.generation(), .draws = 0};
    }
    return ++counts.draws;
  }

 private:
  struct Slot {
    std::uint32_t generation = 0;
    std::uint32_t draws = 0;
  };
  std::vector<Slot> slots_;
};

}  // namespace reprise::metrics
