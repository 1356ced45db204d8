#pragma once

#include <reprise/item.hpp>
#include <reprise/selector.hpp>

#include "buffer/buffer_core.hpp"

#include <cstddef>
#include <span>

// Priorities and weights that are read, not changed.

namespace reprise::buffer {

/// `SelectorHandle::priorities`.
std::size_t priorities(BufferCore& core, std::span<const ItemKey> keys, std::span<float> priorities,
                       std::size_t selector);
/// `SelectorHandle::totals`.
[[nodiscard]] SelectorTotals totals(BufferCore& core, std::size_t selector);
/// Sum and smallest weight of all shards as of the last release of each lock, without a lock: what
/// draws are allotted by. The rest is 0.
[[nodiscard]] SelectorSummary hinted(BufferCore& core, std::size_t selector) noexcept;

}  // namespace reprise::buffer
