#include "shard/locked_shard.hpp"

#include <algorithm>

namespace reprise::shard {

std::size_t LockedShard::remove(std::span<const ItemKey> keys) noexcept {
  std::size_t removed = 0;
  for (const ItemKey key : keys) {
    if (const std::optional<storage::Place> place = find(key)) {
      remove(*place);
      ++removed;
    }
  }
  return removed;
}

std::size_t LockedShard::remove_episode(std::uint64_t episode) noexcept {
  const std::size_t before = removed_items_;
  index_.for_each_item_of(
      episode, [this](std::uint32_t chunk) { return queue_[chunk].ingested; },
      [this](storage::Place place) {
        if (holds_item(place)) {
          remove(place);
        }
      });
  return removed_items_ - before;
}

/// Hides an item until its step is evicted.
void LockedShard::remove(storage::Place place) noexcept {
  hints_stale_ = true;
  const std::uint32_t item = leaf(place.chunk, place.row);
  removed_[item] = 1;
  ++removed_items_;
  budget_.add_removed(1);
  fresh_.forget({&item, 1});
  if (limit_.exhausted(item)) {
    return;  // It is hidden.
  }
  // A hidden item of `RankBased` keeps its priority, which would stay the largest in the buffer.
  const float nothing = 0.0F;
  for (const auto& selector : selectors_) {
    selector->update({&item, 1}, {&nothing, 1});
  }
  if (limit_.limited()) {
    limit_.use_up(item);
    exhaust({&item, 1});
    return;
  }
  for (const auto& selector : selectors_) {
    selector->hide({&item, 1});
  }
  ++queue_[place.chunk].steps_without_item;
  ++steps_without_item_;
}

/// The steps of leaves [first, end) leave. Returns how many of them had a removed item.
std::uint32_t LockedShard::forget_removed(std::uint32_t first, std::uint32_t end) noexcept {
  if (removed_items_ == 0) {
    return 0;
  }
  const std::span<std::uint8_t> bits(removed_.data() + first, end - first);
  const auto removed = std::count(bits.begin(), bits.end(), std::uint8_t{1});
  std::fill(bits.begin(), bits.end(), std::uint8_t{0});
  removed_items_ -= static_cast<std::size_t>(removed);
  budget_.add_removed(-removed);
  return static_cast<std::uint32_t>(removed);
}

}  // namespace reprise::shard
