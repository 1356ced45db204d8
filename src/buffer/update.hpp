#pragma once

#include <reprise/item_key.hpp>
#include <reprise/update_result.hpp>

#include "buffer/buffer_core.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// Changes of priorities and weights: of items by key, of items by episode and position, and of all
// items of a selector.

namespace reprise::buffer {

/// `ReplayBuffer::update_priorities`: checks everything, then computes weights and takes each
/// shard's lock once per block of keys. The next stop of the data path is `LockedShard::update`.
UpdateResult update(BufferCore& core, std::span<const ItemKey> keys,
                    std::span<const float> priorities, std::size_t selector);

/// Throws std::invalid_argument, which names the call, for the first priority that is not finite or
/// below 0, or for one that the selector cannot weigh.
void check_priorities(const char* call, std::span<const float> priorities,
                      const SelectorRule& rule);

/// `ReplayBuffer::find`. std::logic_error if there is no episode index.
[[nodiscard]] std::optional<ItemKey> find(BufferCore& core, std::uint64_t episode,
                                          std::uint64_t position);
/// `ReplayBuffer::update_episode_priorities`. std::logic_error as `find`.
UpdateResult update_episode(BufferCore& core, std::uint64_t episode, std::uint64_t position,
                            std::span<const float> priorities, std::size_t selector);

// The next two change all weights of a selector at once, with the locks of all shards held. They
// and `alpha` throw std::invalid_argument for a selector that does not support the change.

/// `ReplayBuffer::set_alpha`.
void set_alpha(BufferCore& core, float alpha, std::size_t selector);
/// `ReplayBuffer::alpha`.
[[nodiscard]] float alpha(const BufferCore& core, std::size_t selector);
/// `ReplayBuffer::decay`.
void decay(BufferCore& core, float factor, std::size_t selector);

}  // namespace reprise::buffer
