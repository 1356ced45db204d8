#pragma once

#include <reprise/item.hpp>

#include "buffer/buffer_core.hpp"
#include "window/batch_store.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

// Reads items by key or by episode. Neither limiters, limits of draws nor removers count such reads
// as draws.

namespace reprise::items {

/// Implements `ReplayBuffer::gather`: copies the item of keys[i] into batch slot offset + i, and
/// clears the slot if the item is gone. Returns how many items were in the buffer. Throws what
/// `ReplayBuffer::gather` documents.
std::size_t gather(buffer::BufferCore& core, window::BatchStore& batch, std::size_t offset,
                   std::span<const ItemKey> keys);

/// Implements `Episodes::gather` for the items that begin with steps [position, position + steps)
/// of an episode, in the same way.
std::size_t gather_episode(buffer::BufferCore& core, window::BatchStore& batch, std::size_t offset,
                           std::uint64_t episode, std::uint64_t position, std::size_t steps);

}  // namespace reprise::items
