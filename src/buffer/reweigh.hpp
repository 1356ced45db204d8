#pragma once

#include "buffer/buffer_core.hpp"

#include <cstddef>

// Change all weights of a selector at once, with the locks of all shards held. They throw
// std::invalid_argument for a selector that does not support the change.

namespace reprise::buffer {

/// `ReplayBuffer::set_alpha`.
void set_alpha(BufferCore& core, float alpha, std::size_t selector);
/// `ReplayBuffer::alpha`.
[[nodiscard]] float alpha(const BufferCore& core, std::size_t selector);
/// `ReplayBuffer::decay`.
void decay(BufferCore& core, float factor, std::size_t selector);

}  // namespace reprise::buffer
