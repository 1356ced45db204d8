#include "buffer/episodes.hpp"

#include "buffer/update.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace reprise::buffer {
namespace {

/// Steps that are looked up at a time, with one lock per shard.
constexpr std::size_t kBlock = 512;

void need_index(const BufferCore& core) {
  core.life().check();
  if (!core.options().episode_index) {
    throw std::logic_error("finding items by episode needs Options::episode_index, which is off");
  }
}

}  // namespace

std::optional<ItemKey> find(BufferCore& core, std::uint64_t episode, std::uint64_t position) {
  need_index(core);
  core.shards().drain();
  ShardSet& shards = core.shards();
  for (std::size_t s = 0; s < shards.size(); ++s) {
    const ShardSet::One shard(shards, s);
    if (const std::optional<ItemKey> key = shard->find(episode, position)) {
      return key;
    }
  }
  return std::nullopt;
}

UpdateResult update_episode(BufferCore& core, std::uint64_t episode, std::uint64_t position,
                            std::span<const float> priorities, std::size_t selector) {
  need_index(core);
  check_priorities(priorities, core.selectors().at(selector));
  core.shards().drain();
  ShardSet& shards = core.shards();
  UpdateResult result;
  // Both arrays are written before they are read, so they are not initialised.
  std::array<ItemKey, kBlock> keys;
  std::array<float, kBlock> found;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::size_t done = 0; done < priorities.size(); done += kBlock) {
    const std::size_t count = std::min(kBlock, priorities.size() - done);
    std::size_t live = 0;
    for (std::size_t s = 0; s < shards.size(); ++s) {
      const ShardSet::One shard(shards, s);
      for (std::size_t i = 0; i < count && live < count; ++i) {
        const std::uint64_t at = position + done + i;
        if (at < position) {
          break;  // The sum has wrapped around: no step has a position as high as that.
        }
        if (const std::optional<ItemKey> key = shard->find(episode, at)) {
          keys[live] = *key;
          found[live++] = priorities[done + i];
        }
      }
    }
    const auto [applied, stale] =
        update(core, std::span(keys).first(live), std::span(found).first(live), selector);
    result.applied += applied;
    const std::size_t missing = count - live;
    // Relaxed: a statistic.
    core.counters.stale_updates.fetch_add(missing, std::memory_order_relaxed);
    result.stale += stale + missing;
  }
  return result;
}

}  // namespace reprise::buffer
