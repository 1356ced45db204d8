#include "items/read_items.hpp"

#include "buffer/update.hpp"
#include "items/pinned_items.hpp"
#include "window/row_copier.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace reprise::items {
namespace {

using buffer::ShardSet;

/// One block of items on their way into a batch: found and pinned, then copied.
class Block {
 public:
  explicit Block(buffer::BufferCore& core) noexcept
      : items(core.shards()),
        targets_(core.window().targets()),
        copier_(core.store(), core.gather(), core.window(), window::RowCopier::kParallelBytes) {}

  PinnedItems items;

  /// Copies the first n items that were asked for, clears the slots of those not found, and gives
  /// the pins back. Returns how many were found.
  std::size_t copy(std::size_t n, window::BatchStore& batch, std::size_t offset) noexcept {
    std::size_t copied = 0;
    for (std::size_t from = 0; from < n;) {
      std::size_t to = from;
      while (to < n && items.found(to)) {
        ++to;
      }
      copier_.copy(items.places().subspan(from, to - from), rows_, targets_, batch, offset + from);
      std::fill(batch.weights + offset + from, batch.weights + offset + to, 1.0F);
      copied += to - from;
      for (from = to; from < n && !items.found(from); ++from) {
        batch.clear(offset + from);
      }
    }
    std::fill_n(batch.probabilities + offset, n, 0.0);
    items.unpin();
    return copied;
  }

 private:
  const window::Targets targets_;
  window::RowCopier copier_;
  std::array<const std::byte*, kItemsAtATime> rows_;  ///< Written before it is read.
};

/// A key of the buffer that names no item: its generation has passed.
ItemKey stale_key(ShardSet& shards) noexcept {
  const ItemKey key = ShardSet::Lock(shards, 0)->key(0);
  return ItemKey::make(key.slot(), key.generation() - 1, key.tag());
}

/// Makes the batch large enough for items in slots [offset, offset + n).
void extend(window::BatchStore& batch, std::size_t offset, std::size_t n) noexcept {
  batch.size = n == 0 ? batch.size : std::max(batch.size, offset + n);
}

}  // namespace

std::size_t gather(buffer::BufferCore& core, window::BatchStore& batch, std::size_t offset,
                   std::span<const ItemKey> keys) {
  core.life().check_not_forked();
  batch.check_places("gather", core.schema(), core.window(), offset, keys.size());
  buffer::check_keys("gather", core, keys);
  Block block(core);
  std::size_t found = 0;
  for (std::size_t done = 0; done < keys.size(); done += kItemsAtATime) {
    const std::span<const ItemKey> part =
        keys.subspan(done, std::min(kItemsAtATime, keys.size() - done));
    block.items.find(part);
    found += block.copy(part.size(), batch, offset + done);
  }
  if (!keys.empty()) {
    // The keys may be the batch's own, so the ranges may overlap.
    std::memmove(batch.keys + offset, keys.data(), keys.size_bytes());
  }
  extend(batch, offset, keys.size());
  return found;
}

std::size_t gather_episode(buffer::BufferCore& core, window::BatchStore& batch, std::size_t offset,
                           std::uint64_t episode, std::uint64_t position, std::size_t steps) {
  buffer::require_episode_index(core);
  batch.check_places("gather", core.schema(), core.window(), offset, steps);
  core.shards().drain();
  std::fill_n(batch.keys + offset, steps, stale_key(core.shards()));
  Block block(core);
  std::size_t found = 0;
  for (std::size_t done = 0; done < steps; done += kItemsAtATime) {
    const std::size_t count = std::min(kItemsAtATime, steps - done);
    block.items.begin(count);
    for (std::size_t s = 0; s < core.shards().size(); ++s) {
      const ShardSet::Lock shard(core.shards(), s);
      buffer::for_each_step(*shard, episode, position, done, done + count,
                            [&](std::size_t i, ItemKey key) {
                              // A damaged checkpoint may say that two shards have the step.
                              if (!block.items.found(i - done)) {
                                batch.keys[offset + i] = key;
                                block.items.pin(*shard, i - done, key);
                              }
                            });
    }
    found += block.copy(count, batch, offset + done);
  }
  extend(batch, offset, steps);
  return found;
}

}  // namespace reprise::items
