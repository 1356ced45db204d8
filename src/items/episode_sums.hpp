#pragma once

#include <reprise/item.hpp>

#include "buffer/buffer_core.hpp"

#include <cstddef>
#include <span>

namespace reprise::items {

/// Implements `Episodes::sums`, and throws what it documents.
std::size_t episode_sums(buffer::BufferCore& core, std::span<const ItemKey> keys,
                         std::span<double> after, std::span<double> totals, std::size_t selector);

}  // namespace reprise::items
