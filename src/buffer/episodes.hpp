#pragma once

#include <reprise/item_key.hpp>
#include <reprise/update_result.hpp>

#include "buffer/buffer_core.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// Finds and updates items by episode and position. Both functions throw std::logic_error if there
// is no episode index.

namespace reprise::buffer {

/// `ReplayBuffer::find`.
[[nodiscard]] std::optional<ItemKey> find(BufferCore& core, std::uint64_t episode,
                                          std::uint64_t position);
/// `ReplayBuffer::update_episode_priorities`.
UpdateResult update_episode(BufferCore& core, std::uint64_t episode, std::uint64_t position,
                            std::span<const float> priorities, std::size_t selector);

}  // namespace reprise::buffer
