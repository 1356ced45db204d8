#include "sampler/read_items.hpp"

#include <reprise/sampler.hpp>

#include "buffer/keys_by_shard.hpp"
#include "buffer/update.hpp"
#include "sampler/row_copier.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace reprise::sampler {
namespace {

using buffer::ShardSet;

/// Items that are read at a time, with one lock per shard; bounds the scratch on the stack.
constexpr std::size_t kBlock = 2048;

/// One block of items on their way into a batch: found and pinned shard by shard, then copied in
/// the sequence in which they were asked for. Scratch is written before it is read, so it is not
/// initialised.
class Block {
 public:
  // A defaulted constructor would set the arrays to 0.
  // NOLINTNEXTLINE(modernize-use-equals-default,cppcoreguidelines-pro-type-member-init)
  explicit Block(buffer::BufferCore& core) noexcept
      : core_(core), copier_(core, SamplerOptions{}.parallel_gather_bytes) {}

  [[nodiscard]] std::span<std::uint32_t> order() noexcept { return order_; }

  void begin(std::size_t items) noexcept {
    std::fill_n(places_.begin(), items, storage::Place{storage::kNil, 0});
    items_ = items;
    pins_ = 0;
  }
  [[nodiscard]] bool found(std::size_t i) const noexcept {
    return places_[i].chunk != storage::kNil;
  }
  /// Pins the item, which is number i of the block, if it is there and none was found for i before.
  /// The shard is locked.
  void pin(shard::LockedShard& shard, std::size_t i, ItemKey key) noexcept {
    const std::optional<storage::Place> place = shard.find(key);
    if (!place || found(i)) {
      return;
    }
    places_[i] = *place;
    // One pin serves several items of one chunk in a row.
    if (pins_ == 0 || pinned_[pins_ - 1] != place->chunk) {
      pinned_[pins_++] = place->chunk;
      shard.pin(std::span(pinned_).subspan(pins_ - 1, 1));
    }
  }
  /// Copies what was found, clears the places of the others, and gives the pins back. Returns how
  /// many were found.
  std::size_t copy(window::BatchStore& batch, std::size_t offset) noexcept {
    std::size_t copied = 0;
    for (std::size_t from = 0; from < items_;) {
      std::size_t to = from;
      while (to < items_ && found(to)) {
        ++to;
      }
      copier_.copy(std::span(places_).subspan(from, to - from), rows_, batch, offset + from);
      std::fill(batch.weights + offset + from, batch.weights + offset + to, 1.0F);
      copied += to - from;
      for (from = to; from < items_ && !found(from); ++from) {
        batch.clear(offset + from);
      }
    }
    std::fill_n(batch.probabilities + offset, items_, 0.0);
    unpin();
    return copied;
  }

 private:
  void unpin() noexcept {
    ShardSet& shards = core_.shards();
    const std::span<const std::uint32_t> pinned = std::span(pinned_).first(pins_);
    for (std::size_t begin = 0; begin < pins_;) {
      const std::size_t shard = shards.index_of_chunk(pinned[begin]);
      std::size_t end = begin;
      while (end < pins_ && shards.index_of_chunk(pinned[end]) == shard) {
        ++end;
      }
      shards[shard].unpin(pinned.subspan(begin, end - begin));
      begin = end;
    }
  }

  buffer::BufferCore& core_;
  RowCopier copier_;
  std::size_t items_ = 0;
  std::size_t pins_ = 0;
  std::array<storage::Place, kBlock> places_;  ///< The chunk is kNil for what is not there.
  std::array<const std::byte*, kBlock> rows_;
  std::array<std::uint32_t, kBlock> pinned_;  ///< Chunks, grouped by shard.
  std::array<std::uint32_t, kBlock> order_;
};

/// A key of the buffer that names no item: its generation has passed.
ItemKey stale_key(buffer::BufferCore& core) noexcept {
  const ItemKey key = ShardSet::One(core.shards(), 0)->key(0);
  return ItemKey::make(key.slot(), key.generation() - 1, key.tag());
}

/// The batch has items in places [offset, offset + n).
void extend(window::BatchStore& batch, std::size_t offset, std::size_t n) noexcept {
  batch.size = n == 0 ? batch.size : std::max(batch.size, offset + n);
}

}  // namespace

std::size_t gather(buffer::BufferCore& core, window::BatchStore& batch, std::size_t offset,
                   std::span<const ItemKey> keys) {
  core.life().check();
  batch.check_places("gather", core.schema(), core.window(), offset, keys.size());
  buffer::check_keys("gather", core, keys);
  Block block(core);
  std::size_t found = 0;
  for (std::size_t done = 0; done < keys.size(); done += kBlock) {
    const std::span<const ItemKey> part = keys.subspan(done, std::min(kBlock, keys.size() - done));
    block.begin(part.size());
    buffer::for_each_shard(part, core.shards(), block.order(),
                           [&](std::size_t s, std::span<const std::uint32_t> order) {
                             const ShardSet::One shard(core.shards(), s);
                             for (const std::uint32_t i : order) {
                               block.pin(*shard, i, part[i]);
                             }
                           });
    found += block.copy(batch, offset + done);
  }
  if (!keys.empty()) {
    // They may be the batch's own.
    std::memmove(batch.keys + offset, keys.data(), keys.size_bytes());
  }
  extend(batch, offset, keys.size());
  return found;
}

std::size_t gather_episode(buffer::BufferCore& core, window::BatchStore& batch, std::size_t offset,
                           std::uint64_t episode, std::uint64_t position, std::size_t steps) {
  buffer::need_index(core);
  batch.check_places("gather_episode", core.schema(), core.window(), offset, steps);
  core.shards().drain();
  std::fill_n(batch.keys + offset, steps, stale_key(core));
  Block block(core);
  std::size_t found = 0;
  for (std::size_t done = 0; done < steps; done += kBlock) {
    const std::size_t count = std::min(kBlock, steps - done);
    block.begin(count);
    for (std::size_t s = 0; s < core.shards().size(); ++s) {
      const ShardSet::One shard(core.shards(), s);
      buffer::for_each_step(*shard, episode, position, done, done + count,
                            [&](std::size_t i, ItemKey key) {
                              // A checkpoint may say that two shards have the step.
                              if (!block.found(i - done)) {
                                batch.keys[offset + i] = key;
                                block.pin(*shard, i - done, key);
                              }
                            });
    }
    found += block.copy(batch, offset + done);
  }
  extend(batch, offset, steps);
  return found;
}

}  // namespace reprise::sampler
