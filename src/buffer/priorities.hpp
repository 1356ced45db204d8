#pragma once

#include <reprise/item_key.hpp>
#include <reprise/selector_totals.hpp>

#include "buffer/buffer_core.hpp"

#include <cstddef>
#include <span>

// Priorities and weights that are read, not changed.

namespace reprise::buffer {

/// `ReplayBuffer::priorities`.
std::size_t priorities(BufferCore& core, std::span<const ItemKey> keys, std::span<float> priorities,
                       std::size_t selector);
/// `ReplayBuffer::totals`.
[[nodiscard]] SelectorTotals totals(BufferCore& core, std::size_t selector);

}  // namespace reprise::buffer
