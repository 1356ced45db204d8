#pragma once

#include <reprise/item_key.hpp>
#include <reprise/update_result.hpp>

#include "buffer/buffer_core.hpp"

#include <cstddef>
#include <span>

namespace reprise::buffer {

/// `ReplayBuffer::update_priorities`: weights from priorities, one lock per shard among the keys.
UpdateResult update(BufferCore& core, std::span<const ItemKey> keys,
                    std::span<const float> priorities, std::size_t selector);

/// std::invalid_argument for the first priority that is none, or that the selector does not take.
void check_priorities(std::span<const float> priorities, const SelectorRule& rule);

}  // namespace reprise::buffer
