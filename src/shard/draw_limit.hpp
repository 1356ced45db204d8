#pragma once

#include "base/memory.hpp"
#include "shard/budget.hpp"
#include "shard/chunk_queue.hpp"
#include "shard/row_index.hpp"
#include "shard/selection.hpp"
#include "storage/chunk_store.hpp"
#include "tree/largest_tree.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::shard {

/// Counts how often each item of a shard was drawn, if draws are limited, and finds the chunks from
/// which steps have to be evicted first, because they hold exhausted items. An item is exhausted
/// when it was drawn as often as the limit allows, is outdated (`PolicyVersions`), or was removed.
///
/// Steps leave a chunk oldest first, so an exhausted item cannot leave before an older item of its
/// chunk that may be drawn again. The *front* of a chunk is the steps before its first item that
/// may be drawn again. Fronts with exhausted items are evicted before any item that may be drawn
/// again. Some fronts have only steps without an item, which windows of more than one step cause.
/// Those of partial and of filled chunks are evicted too, as nothing else would free their memory.
///
/// A *partial* chunk has lost some of its steps and not all, so it holds memory for steps that are
/// gone. Therefore fronts of partial chunks are evicted first. Filled chunks that are all front
/// come next, one after the other, and other fronts last, but only while fewer than `max_partial`
/// chunks are partial. Within each of these three kinds the oldest chunk comes first. So at most
/// `max_partial` chunks are partial, besides one that was all front, and open chunks that were
/// emptied and got new steps; the sum in `buffer/plan.hpp` needs this bound.
///
/// Externally synchronised by the shard's lock. Every call is O(log chunks), plus O(1) amortised
/// per row that it concerns.
class DrawLimit final : public RowIndex {
 public:
  /// `times`: the most draws of each item; 0: no limit, so draws are not counted. Then the index
  /// takes no memory and is told no events, unless `may_outdate` says that items may be exhausted
  /// without a limit. `max_partial`: how many chunks may become partial for the sake of their
  /// fronts. Exhausted items are hidden in the selection.
  DrawLimit(storage::ChunkStore& store, const ChunkQueue& queue, Budget& budget,
            Selection& selection, std::uint32_t first_chunk, std::uint32_t times,
            std::size_t max_partial, bool may_outdate = false);

  /// Whether the draws of each item are limited.
  [[nodiscard]] bool limited() const noexcept { return limited_; }
  [[nodiscard]] bool enabled() const noexcept { return !uses_.empty(); }
  [[nodiscard]] bool exhausted(std::uint32_t leaf) const noexcept {
    return enabled() && counts_[leaf] == times_;
  }
  /// How many items of the shard are exhausted.
  [[nodiscard]] std::size_t exhausted() const noexcept { return exhausted_; }
  /// How many draws the limit still allows of all items together; the shard has `items` items.
  [[nodiscard]] std::size_t draws_left(std::size_t items) const noexcept {
    return items * times_ - draws_;
  }

  /// Call it some time before `exhausted` or `add`, because the counts of a batch are scattered.
  void prefetch(std::uint32_t leaf) const noexcept {
    if (limited()) {
      __builtin_prefetch(&counts_[leaf], 1);
    }
  }
  /// Counts a draw of an item that is not exhausted. Returns whether it was the item's last draw.
  bool add(std::uint32_t leaf) noexcept {
    if (!limited()) {
      return false;
    }
    ++draws_;
    return ++counts_[leaf] == times_;
  }
  /// Undoes an `add`. Not allowed once `exhaust` was called for the item.
  void take_back(std::uint32_t leaf) noexcept {
    if (limited()) {
      --draws_;
      --counts_[leaf];
    }
  }
  /// Hides items, of any chunks, that have become exhausted, until they are evicted.
  void exhaust(std::span<const std::uint32_t> leaves) noexcept;
  /// Counts outdated or removed items, of any chunks, as exhausted, and the draws that the limit
  /// still allowed of them as made. The items are hidden already.
  void give_up(std::span<const std::uint32_t> leaves) noexcept;

  // Events.

  void enter(const Rows& rows, std::span<const SelectorSummary> others) noexcept override;
  void leave(const Rows& rows) noexcept override;
  /// Brings the chunk's front, and its place in the order of fronts, up to date.
  void changed(std::uint32_t chunk) noexcept override;
  void retire(std::uint32_t chunk, std::uint32_t /*ingested*/) noexcept override {
    use(chunk) = Use{};
  }
  void removed(std::uint32_t leaf, bool exhausted) noexcept override {
    if (!exhausted) {
      give_up({&leaf, 1});
    }
  }
  void store(std::span<const std::uint32_t> leaves, ShardImage& image,
             std::size_t at) const noexcept override;
  /// Restores counts of draws, clamped to the limit.
  void restore(std::span<const std::uint32_t> leaves, const ShardImage& image,
               std::size_t at) noexcept override;
  [[nodiscard]] Memory memory() const noexcept override;

  /// A chunk to evict from, and how many of its steps may be evicted.
  struct Victim {
    std::uint32_t chunk = storage::kNil;
    std::size_t steps = 0;
  };
  /// The front that has to be evicted before any item that may be drawn again; with 0 steps if no
  /// front has to be.
  [[nodiscard]] Victim front() const noexcept;
  /// Whether other shards have a front to evict, as of the last release of their locks.
  [[nodiscard]] bool others_have_fronts() const noexcept {
    return budget_.shards_with_fronts() != (front_published_ ? 1U : 0U);
  }
  /// Tells the other shards whether this shard has a front to evict.
  void publish_front() noexcept;
  /// Whether this shard's part of all exhausted items is at least as large as `share`, its part of
  /// the capacity. This holds for at least one shard.
  [[nodiscard]] bool has_fair_share(std::size_t share) const noexcept {
    return exhausted_ * budget_.capacity() >= budget_.exhausted() * share;
  }

 private:
  friend struct Audit;  // The tests' audit.

  /// The state that the limit keeps per chunk, beside `ChunkState`.
  struct Use {
    std::uint32_t front = 0;        ///< Rows [deselected, front) are the front.
    std::uint32_t front_steps = 0;  ///< Steps in the front.
    std::uint32_t exhausted = 0;    ///< Exhausted items in [deselected, ingested).
    bool partial = false;
    std::uint64_t joined = 0;  ///< How many chunks had joined the queue before this one.
  };
  [[nodiscard]] Use& use(std::uint32_t chunk) noexcept { return uses_[chunk - first_chunk_]; }
  [[nodiscard]] const Use& use(std::uint32_t chunk) const noexcept {
    return uses_[chunk - first_chunk_];
  }
  [[nodiscard]] std::uint32_t first_leaf(std::uint32_t chunk) const noexcept {
    return (chunk - first_chunk_) * store_.chunk_rows();
  }
  void count_exhausted(std::span<const std::uint32_t> leaves) noexcept;
  [[nodiscard]] bool is_partial(std::uint32_t chunk) const noexcept {
    return queue_[chunk].steps != 0 && queue_[chunk].deselected != 0;
  }
  void move_front(std::uint32_t chunk) noexcept;
  [[nodiscard]] std::uint64_t rank_of(std::uint32_t chunk) const noexcept;

  storage::ChunkStore& store_;
  const ChunkQueue& queue_;
  Budget& budget_;
  Selection& selection_;
  const std::uint32_t first_chunk_;
  const bool limited_;
  const std::uint32_t times_;  ///< The count of an exhausted item.
  const std::size_t max_partial_;
  base::LazyArray<std::uint32_t> counts_;   ///< Draws of each item, by leaf.
  std::vector<Use> uses_;                   ///< By chunk.
  tree::LargestTree<std::uint64_t> ranks_;  ///< By chunk; the front with the largest is next.
  std::uint64_t joined_ = 0;
  std::size_t exhausted_ = 0;
  std::size_t draws_ = 0;    ///< Sum of counts_ over all items.
  std::size_t partial_ = 0;  ///< Partial chunks.
  bool front_published_ = false;
};

}  // namespace reprise::shard
