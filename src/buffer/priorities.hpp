#pragma once

#include <reprise/item.hpp>
#include <reprise/selector.hpp>

#include "buffer/buffer_core.hpp"

#include <cstddef>
#include <span>

// Reads priorities and weights without changing them.

namespace reprise::buffer {

/// Implements `SelectorHandle::priorities`.
std::size_t priorities(BufferCore& core, std::span<const ItemKey> keys, std::span<float> priorities,
                       std::size_t selector);
/// Implements `SelectorHandle::totals`.
[[nodiscard]] SelectorTotals totals(BufferCore& core, std::size_t selector);
/// Sum and smallest weight over all shards, each as of the last release of its lock, read without a
/// lock. Draws are allotted by these numbers. The other members are 0.
[[nodiscard]] SelectorSummary hinted(BufferCore& core, std::size_t selector) noexcept;

}  // namespace reprise::buffer
