#include "base/check.hpp"
#include "select/one_interval.hpp"
#include "shard/shard.hpp"

#include <algorithm>

namespace reprise::shard {

Drawn Shard::draw(std::size_t selector, const Draws& draws) noexcept {
  const ShardSelector& half = *selectors_[selector];
  const double total = half.summary().total / half.unit();
  if (!(total > 0.0)) {
    return {};
  }
  for (double& fraction : draws.fractions) {
    fraction *= total;
  }
  half.draw(draws.fractions, draws.leaves, draws.weights);
  REPRISE_ASSERT(std::all_of(draws.weights.begin(), draws.weights.end(),
                             [](float weight) { return weight > 0.0F; }));
  REPRISE_ASSERT(select::one_interval_each(draws.leaves));
  return {total, hand_out(draws.leaves, draws.keys, draws.places, draws.pinned)};
}

std::size_t Shard::hand_out(std::span<std::uint32_t> leaves, std::span<ItemKey> keys,
                            std::span<storage::Place> places,
                            std::span<std::uint32_t> pinned) noexcept {
  std::size_t pins = 0;
  std::uint32_t last = storage::kNil;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::uint32_t slot = first_slot() + leaves[i];
    const storage::Place place = store_.place(slot);
    places[i] = place;
    const ChunkState& state = order_[place.chunk];
    REPRISE_ASSERT(place.row >= state.deselected && place.row < state.ingested);
    keys[i] = ItemKey::make(slot, state.generation_of(place.row), tag_);
    // Draws come nearly sorted, so one pin mostly serves a run of them in one chunk.
    pinned[pins] = place.chunk;
    pins += place.chunk != last ? 1U : 0U;
    last = place.chunk;
  }
  pin(pinned.first(pins));
  if (tells_remover()) {
    std::transform(places.begin(), places.end(), leaves.begin(),
                   [](const storage::Place& place) { return place.chunk; });
    tell_remover(leaves);
  }
  return pins;
}

void Shard::pin(std::span<const std::uint32_t> chunks) noexcept {
  for (const std::uint32_t chunk : chunks) {
    store_.chunk(chunk).pins.pin();
  }
}

ItemKey Shard::key(std::uint32_t leaf) const noexcept {
  const auto [chunk, row] = place(leaf);
  return ItemKey::make(first_slot() + leaf, order_[chunk].generation_of(row), tag_);
}

std::optional<ItemKey> Shard::find(std::uint64_t episode, std::uint64_t position) noexcept {
  if (!index_.enabled()) {
    return std::nullopt;
  }
  const auto selected = [this](storage::Place place) REPRISE_UNCHECKED {
    const ChunkState& state = order_[place.chunk];
    return place.row >= state.deselected && place.row < state.ingested;
  };
  const std::optional<storage::Place> place = index_.find(episode, position, selected);
  return place ? std::optional(key(leaf(place->chunk, place->row))) : std::nullopt;
}

void Shard::exhaust(std::span<const std::uint32_t> leaves) noexcept {
  for (const auto& selector : selectors_) {
    selector->hide(leaves);
  }
  limit_.exhaust(leaves);
}

void Shard::tell_remover(std::span<std::uint32_t> chunks) noexcept {
  std::size_t known = 0;
  for (const std::uint32_t chunk : chunks) {
    chunks[known] = chunk - first_chunk_;
    known += order_[chunk].closed ? 1U : 0U;
  }
  victims_.sampled(chunks.first(known));
}

std::size_t Shard::update(std::size_t selector, std::span<const ItemKey> keys,
                          std::span<float> weights, std::span<std::uint32_t> leaves) noexcept {
  std::size_t live = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto [chunk, row] = store_.place(keys[i].slot());
    const ChunkState& state = order_[chunk];
    leaves[live] = keys[i].slot() - first_slot();
    weights[live] = weights[i];
    const bool current = keys[i].generation() == state.generation_of(row);
    const bool selected = row - state.deselected < state.ingested - state.deselected;
    live += static_cast<unsigned>(current) & static_cast<unsigned>(selected);
  }
  ShardSelector& half = *selectors_[selector];
  // Only what weighs nothing may be exhausted, or no item at all, which no key of ours names.
  if (!half.all_positive(leaves.first(live))) {
    live = drop_non_items(leaves.first(live), weights);
  }
  half.update(leaves.first(live), weights.first(live));
  publish_hints();
  return live;
}

/// Compacts both in place; returns how many are left.
std::size_t Shard::drop_non_items(std::span<std::uint32_t> leaves,
                                  std::span<float> weights) noexcept {
  const float* const priorities = store_.priorities(first_chunk_);
  std::size_t items = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    leaves[items] = leaves[i];
    weights[items] = weights[i];
    const bool counts = storage::is_item(priorities[leaves[i]]) && !limit_.exhausted(leaves[i]);
    items += counts ? 1U : 0U;
  }
  return items;
}

void Shard::publish_hints() noexcept {
  // Relaxed: see windows().
  const std::size_t items = items_ - alone_;
  windows_.store(items - limit_.exhausted(), std::memory_order_relaxed);
  if (limit_.limited()) {
    draws_left_.store(limit_.draws_left(items), std::memory_order_relaxed);
    limit_.tell_front();
  }
  for (std::size_t s = 0; s < selectors_.size(); ++s) {
    hints_.publish(s, selectors_[s]->summary());
  }
}

}  // namespace reprise::shard
