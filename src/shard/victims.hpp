#pragma once

#include <reprise/remover.hpp>
#include <reprise/selector.hpp>

#include "shard/budget.hpp"
#include "shard/chunk_pool.hpp"
#include "shard/chunk_queue.hpp"
#include "shard/draw_limit.hpp"
#include "shard/row_index.hpp"
#include "shard/selection.hpp"
#include "storage/free_list.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace reprise::shard {

/// Whether the shards that ought to evict, because they have older chunks, can.
enum class Others : std::uint8_t { Free, Busy };

/// Chooses the victim of a shard: the chunk that the next steps are evicted from.
///
/// For `Fifo`, which has no shard remover, the victim is the oldest chunk of the queue. The shards
/// with the oldest chunks of the buffer evict (`Budget::among_oldest`), so that no step stays
/// because its shard gets no others (I13).
///
/// With another remover, a shard over its share of the capacity evicts. The remover chooses a
/// filled chunk, which stays the victim until it has no steps left; while no chunk is filled, the
/// victim is the oldest one. So an open chunk loses steps only while no chunk is filled, or by a
/// limit of draws (`DrawLimit`). Therefore at most the chunk that the remover chose and one per
/// writer are partial; the sum in `buffer/plan.hpp` needs this bound.
///
/// Externally synchronised by the shard's lock. Chunk numbers here count through the buffer, but
/// those that the remover gets and gives begin at 0 in each shard. `next` asks the remover once per
/// victim; everything else is O(1).
class Victims final : public ShardChunks, public RowIndex {
 public:
  /// The parts of the shard that the choice depends on.
  struct Inputs {
    const Selection& selection;
    std::uint32_t chunk_rows;
    const ChunkQueue& queue;
    const DrawLimit& limit;
    const Budget& budget;
    std::uint32_t budget_index;  ///< The shard's number in the budget.
  };
  Victims(const Remover& remover, const Inputs& inputs, const Extent& extent)
      : inputs_(inputs),
        first_chunk_(extent.first_chunk),
        share_(extent.share),
        remover_(remover.make_shard_remover(*this)),
        wants_samples_(remover_ != nullptr && remover_->wants_samples()) {}

  /// Whether there is a shard remover; events serve only that.
  [[nodiscard]] bool enabled() const noexcept { return remover_ != nullptr; }

  // For the remover.

  [[nodiscard]] std::uint32_t chunks() const noexcept override { return inputs_.queue.size(); }
  [[nodiscard]] std::size_t selectors() const noexcept override { return inputs_.selection.size(); }
  [[nodiscard]] std::uint32_t steps(std::uint32_t chunk) const noexcept override {
    return chunk < chunks() ? inputs_.queue[first_chunk_ + chunk].steps : 0;
  }
  [[nodiscard]] double weight(std::uint32_t chunk, std::size_t selector) const noexcept override {
    return chunk < chunks() && selector < selectors()
               ? inputs_.selection[selector].sum(chunk * inputs_.chunk_rows, inputs_.chunk_rows)
               : 0.0;
  }

  // Events.

  void filled(std::uint32_t chunk) noexcept override {
    ++filled_;
    remover_->enters(chunk - first_chunk_);
  }
  void emptied(std::uint32_t chunk) noexcept override {
    if (chunk == alternate_victim_) {
      alternate_victim_ = storage::kNil;
      oldest_next_ = !oldest_next_;
    }
    if (inputs_.queue[chunk].closed) {
      --filled_;
      victim_ = victim_ == chunk ? storage::kNil : victim_;
      remover_->leaves(chunk - first_chunk_);
    }
  }
  /// If the remover wants samples, tells it the chunk of each drawn item, once per item, but only
  /// chunks that are filled.
  void drawn(std::span<const storage::Place> places,
             std::span<std::uint32_t> scratch) noexcept override {
    if (!wants_samples_) {
      return;
    }
    std::size_t count = 0;
    for (const storage::Place& place : places) {
      scratch[count] = place.chunk - first_chunk_;
      count += inputs_.queue[place.chunk].closed ? 1U : 0U;
    }
    remover_->sampled(scratch.first(count));
  }

  /// The victim, and how many of its steps may be evicted; the shard has `steps` steps. The number
  /// is 0 if other shards have to evict: those with older chunks, those over their share, or those
  /// with exhausted items that go first. So while the buffer is over its capacity, the shards are
  /// asked one after the other. If the others are busy, the shard evicts although they have older
  /// chunks.
  [[nodiscard]] DrawLimit::Victim next(std::size_t steps, Others others) noexcept {
    if (inputs_.limit.enabled()) {
      if (const DrawLimit::Victim front = inputs_.limit.front(); front.steps != 0) {
        return front;
      }
      if (inputs_.limit.others_have_fronts()) {
        return {};  // Even if the others are busy, because otherwise a `Queue` would lose items.
      }
      if (remover_ != nullptr && inputs_.budget.exhausted() != 0) {
        if (steps == 0 || !inputs_.limit.has_fair_share(share_)) {
          return {};
        }
        // The remover may spare exhausted items, so its choice and the oldest chunk alternate.
        alternate_victim_ = oldest_next_ ? inputs_.queue.oldest() : chosen();
        return {alternate_victim_, inputs_.queue[alternate_victim_].steps};
      }
    }
    if (remover_ == nullptr) {
      const std::uint32_t oldest = inputs_.queue.oldest();
      if (oldest == storage::kNil) {
        return {};
      }
      const ChunkState& state = inputs_.queue[oldest];
      const bool evicts =
          others == Others::Busy || inputs_.budget.among_oldest(inputs_.budget_index, state.turn);
      return evicts ? DrawLimit::Victim{oldest, state.steps} : DrawLimit::Victim{};
    }
    if (steps <= share_) {
      return {};
    }
    const std::uint32_t chunk = chosen();
    return {chunk, std::min<std::size_t>(steps - share_, inputs_.queue[chunk].steps)};
  }

 private:
  friend struct Audit;  // The tests' audit.

  /// The remover's choice, or the oldest chunk if no chunk is filled. The queue must not be empty.
  [[nodiscard]] std::uint32_t chosen() noexcept {
    if (filled_ == 0) {
      return inputs_.queue.oldest();
    }
    if (victim_ == storage::kNil) {
      victim_ = ask_remover();
    }
    return victim_;
  }

  /// The chunk that the remover chooses now. If a user's remover returns a chunk that is not
  /// filled, it is the oldest filled one. O(chunks that are not filled).
  [[nodiscard]] std::uint32_t ask_remover() noexcept {
    const std::uint32_t victim = remover_->victim();
    if (victim < inputs_.queue.size() && inputs_.queue[first_chunk_ + victim].filled()) {
      return first_chunk_ + victim;
    }
    std::uint32_t chunk = inputs_.queue.oldest();
    while (!inputs_.queue[chunk].filled()) {
      chunk = inputs_.queue[chunk].newer;
    }
    return chunk;
  }

  const Inputs inputs_;
  const std::uint32_t first_chunk_;
  const std::size_t share_;
  const std::unique_ptr<ShardRemover> remover_;
  const bool wants_samples_;
  std::uint32_t filled_ = 0;  ///< Chunks that the remover may choose.
  std::uint32_t victim_ = storage::kNil;
  // Used only if items are exhausted: the victim alternates between two chunks.
  bool oldest_next_ = false;  ///< The next victim is the oldest chunk, not the remover's choice.
  std::uint32_t alternate_victim_ = storage::kNil;  ///< The present victim.
};

}  // namespace reprise::shard
