#pragma once

#include <reprise/item_key.hpp>
#include <reprise/update_result.hpp>

#include "buffer/buffer_core.hpp"

#include <cstddef>
#include <span>

namespace reprise::buffer {

/// `ReplayBuffer::update_priorities`: checks everything, then computes weights and takes each
/// shard's lock once per block of keys. The next stop of the data path is `LockedShard::update`.
UpdateResult update(BufferCore& core, std::span<const ItemKey> keys,
                    std::span<const float> priorities, std::size_t selector);

/// Throws std::invalid_argument for the first priority that is not valid, or for one that the
/// selector cannot weigh.
void check_priorities(std::span<const float> priorities, const SelectorRule& rule);

}  // namespace reprise::buffer
