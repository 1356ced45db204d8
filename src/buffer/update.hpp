#pragma once

#include <reprise/item.hpp>

#include "buffer/buffer_core.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// Changes of priorities and weights: of items by key, of items by episode and position, and of all
// items of a selector; items taken out.

namespace reprise::buffer {

/// `SelectorHandle::update`: checks everything, then computes weights and takes each
/// shard's lock once per block of keys. The next stop of the data path is `LockedShard::update`.
UpdateResult update(BufferCore& core, std::span<const ItemKey> keys,
                    std::span<const float> priorities, std::size_t selector);

/// Whether all priorities are finite, at least 0, and such that the selector can weigh them.
[[nodiscard]] bool weighable(std::span<const float> priorities, const SelectorRule& rule);
/// Throws std::invalid_argument, which names the call, for the first that is not so. `first`: the
/// number by which it calls the first one.
void check_priorities(const char* call, std::span<const float> priorities, const SelectorRule& rule,
                      std::size_t first = 0);

/// Throws std::invalid_argument, which names the call, for the first key of another buffer.
void check_keys(const char* call, BufferCore& core, std::span<const ItemKey> keys);

/// std::logic_error if there is no episode index, or in a forked child.
void need_index(const BufferCore& core);

/// Calls each(i, key) for every item of a locked shard that begins with step position + i of an
/// episode, i in [begin, end).
template <class Each>
void for_each_step(shard::LockedShard& shard, std::uint64_t episode, std::uint64_t position,
                   std::size_t begin, std::size_t end, Each each) {
  // Once the sum wraps around, no step has a position as high as that.
  for (std::size_t i = begin; i < end && position + i >= position; ++i) {
    if (const std::optional<ItemKey> key = shard.find(episode, position + i)) {
      each(i, *key);
    }
  }
}

/// `Episodes::find`. std::logic_error if there is no episode index.
[[nodiscard]] std::optional<ItemKey> find(BufferCore& core, std::uint64_t episode,
                                          std::uint64_t position);
/// `Episodes::update_priorities`. std::logic_error as `find`.
UpdateResult update_episode(BufferCore& core, std::uint64_t episode, std::uint64_t position,
                            std::span<const float> priorities, std::size_t selector);

// The next two change all weights of a selector at once, with the locks of all shards held. They
// and `alpha` throw std::invalid_argument for a selector that does not support the change.

/// `SelectorHandle::set_alpha`.
void set_alpha(BufferCore& core, float alpha, std::size_t selector);
/// `SelectorHandle::alpha`.
[[nodiscard]] float alpha(const BufferCore& core, std::size_t selector);
/// `SelectorHandle::decay`.
void decay(BufferCore& core, float factor, std::size_t selector);
/// `SelectorHandle::reset`.
void reset(BufferCore& core, float priority, std::size_t selector);

/// `ReplayBuffer::remove`.
std::size_t remove(BufferCore& core, std::span<const ItemKey> keys);
/// `Episodes::remove`. std::logic_error as `find`.
std::size_t remove_episode(BufferCore& core, std::uint64_t episode);
/// `ReplayBuffer::clear`.
void clear(BufferCore& core);

}  // namespace reprise::buffer
