#pragma once

#include <reprise/item.hpp>

#include "buffer/buffer_core.hpp"
#include "window/batch_store.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

// Items that are read by name, without a draw: neither a rate limiter nor a limit of draws counts
// them, and no remover hears of them.

namespace reprise::items {

/// `ReplayBuffer::gather`: copies the item of keys[i] into place offset + i of the batch; what is
/// not there is cleared. Returns how many items were there. Throws as documented there.
std::size_t gather(buffer::BufferCore& core, window::BatchStore& batch, std::size_t offset,
                   std::span<const ItemKey> keys);

/// `Episodes::gather`: the same for the items that begin with steps [position, position
/// + steps) of an episode.
std::size_t gather_episode(buffer::BufferCore& core, window::BatchStore& batch, std::size_t offset,
                           std::uint64_t episode, std::uint64_t position, std::size_t steps);

}  // namespace reprise::items
