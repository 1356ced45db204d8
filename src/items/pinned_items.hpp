#pragma once

#include <reprise/item.hpp>

#include "buffer/keys_by_shard.hpp"
#include "buffer/shard_set.hpp"
#include "storage/chunk_store.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace reprise::items {

/// How many items are read under one lock per shard, which bounds the scratch on the stack.
inline constexpr std::size_t kItemsAtATime = 2048;

/// Finds items by key and pins them, shard by shard, in the order in which they were asked for.
/// Scratch is written before it is read, so it is not initialised.
class PinnedItems {
 public:
  // A defaulted constructor would set the arrays to 0.
  // NOLINTNEXTLINE(modernize-use-equals-default,cppcoreguidelines-pro-type-member-init)
  explicit PinnedItems(buffer::ShardSet& shards) noexcept : shards_(shards) {}

  /// Scratch for `buffer::for_each_shard`.
  [[nodiscard]] std::span<std::uint32_t> order() noexcept { return order_; }

  void begin(std::size_t items) noexcept {
    std::fill_n(places_.begin(), items, storage::Place{storage::kNil, 0});
    pins_ = 0;
  }
  [[nodiscard]] bool found(std::size_t i) const noexcept {
    return places_[i].chunk != storage::kNil;
  }
  /// Pins the item as number i, if it is in the buffer and nothing was found for i before. The
  /// shard is locked.
  void pin(shard::LockedShard& shard, std::size_t i, ItemKey key) noexcept {
    const std::optional<storage::Place> place = shard.find(key);
    if (place && !found(i)) {
      pin(shard, i, *place);
    }
  }
  /// Sets the place of number i and pins the chunk of that place, which is in use. The shard is
  /// locked.
  void pin(shard::LockedShard& shard, std::size_t i, storage::Place place) noexcept {
    places_[i] = place;
    // One pin serves several items of one chunk in a row.
    if (pins_ == 0 || pinned_[pins_ - 1] != place.chunk) {
      pinned_[pins_++] = place.chunk;
      shard.pin(std::span(pinned_).subspan(pins_ - 1, 1));
    }
  }
  /// Finds and pins the items of these keys, with each shard's lock taken once.
  void find(std::span<const ItemKey> keys) noexcept {
    begin(keys.size());
    buffer::for_each_shard(keys, shards_, order_,
                           [&](std::size_t s, std::span<const std::uint32_t> order) {
                             const buffer::ShardSet::Lock shard(shards_, s);
                             for (const std::uint32_t i : order) {
                               pin(*shard, i, keys[i]);
                             }
                           });
  }
  /// The places of the items; the chunk is kNil for an item that is gone.
  [[nodiscard]] std::span<const storage::Place> places() const noexcept { return places_; }

  void unpin() noexcept {
    const std::span<const std::uint32_t> pinned = std::span(pinned_).first(pins_);
    for (std::size_t begin = 0; begin < pins_;) {
      const std::size_t shard = shards_.index_of_chunk(pinned[begin]);
      std::size_t end = begin;
      while (end < pins_ && shards_.index_of_chunk(pinned[end]) == shard) {
        ++end;
      }
      shards_[shard].unpin(pinned.subspan(begin, end - begin));
      begin = end;
    }
  }

 private:
  buffer::ShardSet& shards_;
  std::size_t pins_ = 0;
  std::array<storage::Place, kItemsAtATime> places_;
  std::array<std::uint32_t, kItemsAtATime> pinned_;  ///< Pinned chunks, grouped by shard.
  std::array<std::uint32_t, kItemsAtATime> order_;
};

}  // namespace reprise::items
