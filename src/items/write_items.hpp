#pragma once

#include <reprise/item.hpp>
#include <reprise/schema.hpp>

#include "buffer/buffer_core.hpp"

#include <cstddef>
#include <span>

namespace reprise::items {

/// Implements `ReplayBuffer::update`: replaces values of a mutable column in the steps of items
/// that are found by key, pinned, and written without a lock. Throws what `ReplayBuffer::update`
/// documents.
UpdateResult update_column(buffer::BufferCore& core, std::span<const ItemKey> keys, AnyField field,
                           std::span<const std::byte> values, std::size_t skip);

}  // namespace reprise::items
