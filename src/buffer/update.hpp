#pragma once

#include <reprise/item.hpp>

#include "buffer/buffer_core.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// Changes priorities and weights of items by key, by episode, and of all items; removes items.

namespace reprise::buffer {

/// Implements `SelectorHandle::update`: checks everything, then computes weights and takes each
/// shard's lock once per block of keys. The next stop of the data path is `LockedShard::update`.
UpdateResult update(BufferCore& core, std::span<const ItemKey> keys,
                    std::span<const float> priorities, std::size_t selector);

/// As `update`, but checks no argument: there are as many priorities as keys, and all keys are of
/// this buffer. A weight that is not finite with the present exponent becomes the largest float.
UpdateResult update_checked(BufferCore& core, std::span<const ItemKey> keys,
                            std::span<const float> priorities, std::size_t selector);

/// Whether all priorities are finite, at least 0, and such that the selector can weigh them.
[[nodiscard]] bool weighable(std::span<const float> priorities, const SelectorRule& rule);
/// Throws std::invalid_argument, which names the call, for the first wrong priority. `first` is the
/// index of the first priority in messages.
void check_priorities(const char* call, std::span<const float> priorities, const SelectorRule& rule,
                      std::size_t first = 0);

/// Throws std::invalid_argument, which names the call, for the first key of another buffer.
void check_keys(const char* call, BufferCore& core, std::span<const ItemKey> keys);

/// Throws std::logic_error if there is no episode index, or in a forked child.
void require_episode_index(const BufferCore& core);

/// Calls each(i, key) for every item of a locked shard that begins with step position + i of an
/// episode, i in [begin, end).
template <class Each>
void for_each_step(shard::LockedShard& shard, std::uint64_t episode, std::uint64_t position,
                   std::size_t begin, std::size_t end, Each each) {
  // Stops where the sum wraps around, because no step has such a high position.
  for (std::size_t i = begin; i < end && position + i >= position; ++i) {
    if (const std::optional<ItemKey> key = shard.find(episode, position + i)) {
      each(i, *key);
    }
  }
}

/// Implements `Episodes::find`. Throws std::logic_error if there is no episode index.
[[nodiscard]] std::optional<ItemKey> find(BufferCore& core, std::uint64_t episode,
                                          std::uint64_t position);
/// Implements `Episodes::update_priorities`. Throws as `find`.
UpdateResult update_episode(BufferCore& core, std::uint64_t episode, std::uint64_t position,
                            std::span<const float> priorities, std::size_t selector);

// `set_alpha` and `decay` change all weights of a selector at once, with all shards' locks held.
// Both, and `alpha`, throw std::invalid_argument for a selector without such changes.

/// Implements `SelectorHandle::set_alpha`.
void set_alpha(BufferCore& core, float alpha, std::size_t selector);
/// Implements `SelectorHandle::alpha`.
[[nodiscard]] float alpha(const BufferCore& core, std::size_t selector);
/// Implements `SelectorHandle::decay`.
void decay(BufferCore& core, float factor, std::size_t selector);
/// Implements `SelectorHandle::reset`.
void reset(BufferCore& core, float priority, std::size_t selector);

/// Implements `ReplayBuffer::remove`.
std::size_t remove(BufferCore& core, std::span<const ItemKey> keys);
/// Implements `Episodes::remove`. Throws as `find`.
std::size_t remove_episode(BufferCore& core, std::uint64_t episode);
/// Implements `ReplayBuffer::clear`.
void clear(BufferCore& core);

}  // namespace reprise::buffer
