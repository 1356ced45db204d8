#include "buffer/buffer_core.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace reprise::buffer {
namespace {

/// Steps looked up at a time, one lock per shard among them.
constexpr std::size_t kBlock = 512;

}  // namespace

void BufferCore::need_index() const {
  life_.check();
  if (!options().episode_index) {
    throw std::logic_error("finding items by episode needs Options::episode_index, which is off");
  }
}

std::optional<ItemKey> BufferCore::find(std::uint64_t episode, std::uint64_t position) {
  need_index();
  drain();
  for (const auto& shard : shards_) {
    const shard::SamplerLock lock(*shard);
    if (const std::optional<ItemKey> key = shard->find(episode, position)) {
      return key;
    }
  }
  return std::nullopt;
}

UpdateResult BufferCore::update_episode(std::uint64_t episode, std::uint64_t position,
                                        std::span<const float> priorities, std::size_t selector) {
  need_index();
  check_priorities(priorities, selector);
  drain();
  UpdateResult result;
  // Written before they are read, as far as a block goes.
  std::array<ItemKey, kBlock> keys;
  std::array<float, kBlock> found;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::size_t done = 0; done < priorities.size(); done += kBlock) {
    const std::size_t count = std::min(kBlock, priorities.size() - done);
    std::size_t live = 0;
    for (const auto& shard : shards_) {
      const shard::SamplerLock lock(*shard);
      for (std::size_t i = 0; i < count && live < count; ++i) {
        const std::uint64_t at = position + done + i;
        if (at < position) {
          break;  // Beyond the last position that there can be.
        }
        if (const std::optional<ItemKey> key = shard->find(episode, at)) {
          keys[live] = *key;
          found[live++] = priorities[done + i];
        }
      }
    }
    const auto [applied, stale] =
        update(std::span(keys).first(live), std::span(found).first(live), selector);
    result.applied += applied;
    const std::size_t missing = count - live;
    // Relaxed: a statistic.
    stale_updates.fetch_add(missing, std::memory_order_relaxed);
    result.stale += stale + missing;
  }
  return result;
}

}  // namespace reprise::buffer
