#pragma once

#include "shard/locked_shard.hpp"
#include "testing/test.hpp"

namespace reprise::shard {

/// Checks the invariants of a shard whose lock is held. The cost is proportional to the rows used.
struct Audit {
  static bool invariants_hold(const LockedShard& shard) {
    std::size_t queued = 0;
    std::ptrdiff_t removed_items = 0;
    std::size_t without_item = 0;
    std::uint32_t filled = 0;
    std::uint32_t older = storage::kNil;
    const ChunkQueue& queue = shard.queue_;
    for (std::uint32_t c = queue.oldest(); c != storage::kNil; c = queue[c].newer) {
      if (queue[c].older != older || queue[c].steps == 0) {
        return false;
      }
      older = c;
      queued += queue[c].steps;
    }
    const std::uint32_t end = shard.first_chunk_ + shard.pool_.touched();
    for (std::uint32_t c = shard.first_chunk_; c < end; ++c) {
      const ChunkState& state = queue[c];
      const float* const priorities = shard.store_.priorities(c);
      const auto steps = std::count_if(priorities + state.deselected, priorities + state.ingested,
                                       [](float p) { return p != storage::kNotAStep; });
      const auto marked = std::count(priorities + state.deselected, priorities + state.ingested,
                                     storage::kStepWithoutItem);
      const std::uint8_t* const bits = shard.removed_.bits_.data() + shard.leaf(c, 0);
      const auto removed = std::count(bits, bits + shard.store_.chunk_rows(), std::uint8_t{1});
      if (removed != std::count(bits + state.deselected, bits + state.ingested, std::uint8_t{1})) {
        return false;
      }
      removed_items += removed;
      without_item += state.steps_without_item;
      filled += state.filled() ? 1U : 0U;
      if (state.steps_without_item != static_cast<std::uint32_t>(marked) ||
          state.deselected > state.ingested || state.steps != static_cast<std::uint32_t>(steps) ||
          (state.closed && state.steps == 0)) {
        return false;
      }
    }
    const Victims& victims = shard.victims_;
    return queued == shard.steps_ && without_item == shard.steps_without_item_ &&
           removed_items == static_cast<std::ptrdiff_t>(shard.removed_.size()) &&
           shard.ingested_ == shard.evicted_ + shard.steps_ &&
           (victims.remover_ == nullptr || victims.filled_ == filled) && holds(shard.limit_, end);
  }

 private:
  /// Whether all members of a draw limit agree with the counts of draws.
  static bool holds(const DrawLimit& limit, std::uint32_t end_chunk) {
    if (!limit.enabled()) {
      return true;
    }
    std::size_t exhausted = 0;
    std::size_t draws = 0;
    std::size_t partial = 0;
    for (std::uint32_t c = limit.first_chunk_; c < end_chunk; ++c) {
      const ChunkState& state = limit.queue_[c];
      const std::uint32_t* const counts = limit.counts_.data() + limit.first_leaf(c);
      const auto of_chunk = static_cast<std::size_t>(
          std::count(counts + state.deselected, counts + state.ingested, limit.times_));
      exhausted += of_chunk;
      draws += std::accumulate(counts + state.deselected, counts + state.ingested, std::size_t{0});
      partial += limit.is_partial(c) ? 1U : 0U;
      if (limit.use(c).exhausted != of_chunk ||
          limit.ranks_[c - limit.first_chunk_] != limit.rank_of(c) ||
          limit.use(c).partial != limit.is_partial(c)) {
        return false;
      }
    }
    return exhausted == limit.exhausted_ && draws == limit.draws_ && partial == limit.partial_;
  }
};

}  // namespace reprise::shard
