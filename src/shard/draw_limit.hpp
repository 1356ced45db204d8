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
/// Steps leave a chunk oldest first, so an exhausted item cannot leave before an older one of its
/// chunk that may be drawn again. The *front* of a chunk is the steps before its first item that
/// may be drawn again. Fronts with exhausted items are evicted before any item that may be drawn
/// again. So are fronts of partial and of filled chunks that have only steps without an item, which
/// windows of more than one step cause: nothing else would free their memory.
///
/// A *partial* chunk has lost some of its steps and not all, so it holds memory for steps that are
/// gone. Therefore fronts of partial chunks are evicted first, then filled chunks that are all
/// front, one after the other, then other fronts, but these only while fewer than `max_partial`
/// chunks are partial. Within a kind the oldest chunk comes first. The sum in `buffer/plan.hpp`
/// needs this bound: at most `max_partial` chunks are partial, and one that was all front, and
/// open chunks that were emptied and got new steps.
///
/// Externally synchronised by the shard's lock. Every call is O(log chunks), plus O(1) amortised
/// per row that it concerns.
class DrawLimit final : public RowIndex {
 public:
  /// `times`: draws of each item; 0: no limit, and no draw is counted. Then no memory is taken and
  /// no event has to be told, unless `may_outdate` says that items are exhausted all the same.
  /// `max_partial`: chunks that may be made partial for the sake of their fronts. Exhausted items
  /// are hidden in the selection.
  DrawLimit(storage::ChunkStore& store, const ChunkQueue& queue, Budget& budget,
            Selection& selection, std::uint32_t first_chunk, std::uint32_t times,
            std::size_t max_partial, bool may_outdate = false);

  [[nodiscard]] bool limited() const noexcept { return limited_; }
  [[nodiscard]] bool on() const noexcept { return !uses_.empty(); }
  [[nodiscard]] bool exhausted(std::uint32_t leaf) const noexcept {
    return on() && counts_[leaf] == times_;
  }
  /// How many items of the shard are exhausted.
  [[nodiscard]] std::size_t exhausted() const noexcept { return exhausted_; }
  /// Draws that all items together still allow; `items` is the number of items in the shard.
  [[nodiscard]] std::size_t draws_left(std::size_t items) const noexcept {
    return items * times_ - draws_;
  }

  /// Call it some time before `exhausted` or `add`, because the counts of a batch are scattered.
  void prefetch(std::uint32_t leaf) const noexcept {
    if (limited()) {
      __builtin_prefetch(&counts_[leaf], 1);
    }
  }
  /// Counts a draw of an item that is not exhausted. True if it was the item's last one.
  bool add(std::uint32_t leaf) noexcept {
    if (!limited()) {
      return false;
    }
    ++draws_;
    return ++counts_[leaf] == times_;
  }
  /// Undoes an `add`; not after `exhaust` was called for the item.
  void take_back(std::uint32_t leaf) noexcept {
    if (limited()) {
      --draws_;
      --counts_[leaf];
    }
  }
  /// Hides items, of any chunks, that have become exhausted, until they are evicted.
  void exhaust(std::span<const std::uint32_t> leaves) noexcept;
  /// Counts items, of any chunks, as exhausted that were hidden before their last draw, and counts
  /// the draws that they had left as made.
  void give_up(std::span<const std::uint32_t> leaves) noexcept;

  // Events.

  void enter(const Rows& rows, std::span<const SelectorSummary> others) noexcept override;
  void leave(const Rows& rows) noexcept override;
  /// Brings the front and the turn of the chunk up to date.
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

  /// A chunk to evict from, and the most of its steps to evict.
  struct Victim {
    std::uint32_t chunk = storage::kNil;
    std::size_t steps = 0;
  };
  /// The front that has to be evicted before any item that may be drawn again; 0 steps if there is
  /// none.
  [[nodiscard]] Victim front() const noexcept;
  /// Whether other shards have such a front, as of the last release of their locks.
  [[nodiscard]] bool others_have_fronts() const noexcept {
    return budget_.shards_with_fronts() != (front_published_ ? 1U : 0U);
  }
  /// Tells the other shards whether this one has such a front.
  void publish_front() noexcept;
  /// Whether this shard's part of all exhausted items is at least as large as its part of the
  /// capacity. At least one shard has such a part.
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
    std::uint64_t age = 0;  ///< Rises from chunk to chunk as they join the queue.
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
  [[nodiscard]] std::uint64_t turn_of(std::uint32_t chunk) const noexcept;

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
  tree::LargestTree<std::uint64_t> turns_;  ///< By chunk; the largest is next.
  std::uint64_t next_age_ = 0;
  std::size_t exhausted_ = 0;
  std::size_t draws_ = 0;    ///< Sum of counts_ over all items.
  std::size_t partial_ = 0;  ///< Partial chunks.
  bool front_published_ = false;
};

}  // namespace reprise::shard
