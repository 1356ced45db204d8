#include "shard/shard.hpp"

#include <algorithm>

// What statistics and tests ask of a shard as a whole.

namespace reprise::shard {

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
  std::size_t all_alone = 0;
  std::uint32_t filled = 0;
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
                                     [](float p) { return p != storage::kNotAStep; });
    const auto alone =
        std::count(priorities + state.deselected, priorities + state.ingested, storage::kStepAlone);
    all_alone += state.alone;
    filled += state.filled() ? 1U : 0U;
    if (state.alone != static_cast<std::uint32_t>(alone) || state.deselected > state.ingested ||
        state.items != static_cast<std::uint32_t>(items) || (state.closed && state.items == 0)) {
      return false;
    }
  }
  return queued == items_ && all_alone == alone_ && ingested_ == evicted_ + items_ &&
         victims_.agree(filled) && limit_.invariants_hold(end);
}

}  // namespace reprise::shard
