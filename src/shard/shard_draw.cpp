#include "base/check.hpp"
#include "shard/shard.hpp"

#include <algorithm>

namespace reprise::shard {

double Shard::draw(std::size_t selector, const Draws& draws) noexcept {
  const select::ShardSelector& half = *selectors_[selector];
  const double total = half.summary().total;
  if (!(total > 0.0)) {
    return 0.0;
  }
  for (double& fraction : draws.fractions) {
    fraction *= total;
  }
  half.draw(draws.fractions, draws.leaves, draws.weights);
  const std::uint32_t rows = store_.chunk_rows();
  std::uint32_t pinned = storage::kNil;
  for (std::size_t i = 0; i < draws.drawn.size(); ++i) {
    const std::uint32_t chunk = first_chunk_ + draws.leaves[i] / rows;
    // Draws come nearly sorted, so one pin mostly serves a run of them in one chunk.
    draws.drawn[i] = {chunk, draws.leaves[i] % rows, chunk != pinned};
    pinned = chunk;
    __builtin_prefetch(&store_.chunk(chunk).pins, 1);
  }
  for (std::size_t i = 0; i < draws.drawn.size(); ++i) {
    const auto [chunk, row, pins] = draws.drawn[i];
    REPRISE_ASSERT(draws.weights[i] > 0.0F);
    REPRISE_ASSERT(row >= order_[chunk].deselected && row < order_[chunk].ingested);
    draws.keys[i] = ItemKey::make(chunk * rows + row, order_[chunk].generation, tag_);
    if (pins) {
      store_.chunk(chunk).pins.pin();
    }
  }
  return total;
}

std::size_t Shard::update(std::size_t selector, std::span<const ItemKey> keys,
                          std::span<float> weights, std::span<std::uint32_t> leaves) noexcept {
  // Marks of non-items lie far apart: all misses are under way before the first is waited for.
  for (const ItemKey key : keys) {
    __builtin_prefetch(store_.priorities(0) + key.slot());
  }
  std::size_t live = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint32_t chunk = keys[i].slot() / store_.chunk_rows();
    const std::uint32_t row = keys[i].slot() % store_.chunk_rows();
    const ChunkState& state = order_[chunk];
    if (keys[i].generation() == state.generation && row >= state.deselected &&
        row < state.ingested && store_.priorities(chunk)[row] != storage::kNotAnItem) {
      leaves[live] = leaf(chunk, row);
      weights[live] = weights[i];
      ++live;
    }
  }
  selectors_[selector]->update(leaves.first(live), weights.first(live));
  publish_hints();
  return live;
}

select::Summary Shard::hint(std::size_t selector) const noexcept {
  // Relaxed: a stale hint shifts how draws are allotted, never a reported probability, which uses
  // the shares that the draw was really allotted by; initial priorities are a rule of thumb.
  const Hint& hint = hints_[selector];
  return {
      hint.total.load(std::memory_order_relaxed), hint.min_positive.load(std::memory_order_relaxed),
      hint.max.load(std::memory_order_relaxed), hint.highest_seen.load(std::memory_order_relaxed)};
}

void Shard::publish_hints() noexcept {
  for (std::size_t s = 0; s < selectors_.size(); ++s) {
    const select::Summary summary = selectors_[s]->summary();
    // Relaxed: see hint().
    hints_[s].total.store(summary.total, std::memory_order_relaxed);
    hints_[s].min_positive.store(summary.min_positive, std::memory_order_relaxed);
    hints_[s].max.store(summary.max, std::memory_order_relaxed);
    hints_[s].highest_seen.store(summary.highest_seen, std::memory_order_relaxed);
  }
}

Counters Shard::counters() const noexcept {
  Counters counters{ingested_, evicted_, 0, 0};
  // Relaxed throughout: statistics of words that others are changing.
  const std::uint32_t end = first_chunk_ + chunks_touched();
  for (std::uint32_t c = first_chunk_; c < end; ++c) {
    const storage::Chunk& chunk = store_.chunk(c);
    if (chunk.pins.retired()) {
      ++counters.retired_pinned;
    }
    if (chunk.bell.word.load(base::Order::Relaxed) != 0) {
      ++counters.queued_chunks;
    }
  }
  return counters;
}

bool Shard::invariants_hold() noexcept {
  std::size_t queued = 0;
  std::uint32_t older = storage::kNil;
  for (std::uint32_t c = order_.oldest(); c != storage::kNil; c = order_[c].newer) {
    if (order_[c].older != older || order_[c].items == 0) {
      return false;
    }
    older = c;
    queued += order_[c].items;
  }
  const std::uint32_t end = first_chunk_ + chunks_touched();
  for (std::uint32_t c = first_chunk_; c < end; ++c) {
    const ChunkState& state = order_[c];
    const float* const priorities = store_.priorities(c);
    const auto items = std::count_if(priorities + state.deselected, priorities + state.ingested,
                                     [](float p) { return p != storage::kNotAnItem; });
    if (state.deselected > state.ingested || state.items != static_cast<std::uint32_t>(items) ||
        (state.closed && state.items == 0)) {
      return false;
    }
  }
  return queued == items_ && ingested_ == evicted_ + items_;
}

}  // namespace reprise::shard
