#pragma once

#include "base/memory.hpp"
#include "shard/budget.hpp"
#include "shard/chunk_queue.hpp"
#include "storage/chunk_store.hpp"
#include "tree/largest_tree.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::shard {

/// Counts how often each item of a shard was drawn, if `max_times_sampled` is set, and says which
/// chunks have to be evicted from first because they hold exhausted items. An item is exhausted
/// when it was drawn `max_times_sampled` times.
///
/// Steps leave a chunk oldest first, so an exhausted item cannot leave before an older one of its
/// chunk that may be drawn again. The *front* of a chunk is the steps before its first item that
/// may be drawn again. Fronts with exhausted items are evicted before any item that may be drawn
/// again, and so are those of partial and of filled chunks that have steps without an item alone,
/// as `Sequences` make them: nobody else would free their memory.
///
/// A *partial* chunk has lost some of its steps and not all, so it holds memory for steps that are
/// gone. Therefore fronts of partial chunks are evicted first, then filled chunks that are all
/// front, one after the other, then other fronts, but these only while fewer than `most_partial`
/// chunks are partial. Within a kind the oldest chunk comes first. The sum in `buffer/plan.hpp`
/// needs this bound: partial are at most `most_partial` chunks, one chunk that was all front, and
/// open chunks that were emptied and got new steps.
///
/// Externally synchronised by the shard's lock. Every call is O(log chunks), plus O(1) amortised
/// per row that it concerns.
class DrawLimit {
 public:
  /// `times`: draws of each item; 0: no limit, and then nothing is counted and no memory is taken.
  /// `most_partial`: chunks that may be made partial for the sake of their fronts.
  DrawLimit(storage::ChunkStore& store, const ChunkQueue& queue, Budget& budget,
            std::uint32_t first_chunk, std::uint32_t chunks, std::uint32_t times,
            std::size_t most_partial);

  /// Bytes of memory by row (`bytes`) and by chunk (`chunk_bytes`), for `Stats`.
  [[nodiscard]] static constexpr std::size_t bytes(std::size_t leaves) noexcept {
    return leaves * sizeof(std::uint32_t);
  }
  [[nodiscard]] static std::size_t chunk_bytes(std::size_t chunks) noexcept {
    return chunks * sizeof(Use) + tree::LargestTree<std::uint64_t>::bytes(chunks);
  }

  [[nodiscard]] bool limited() const noexcept { return times_ != 0; }
  [[nodiscard]] bool exhausted(std::uint32_t leaf) const noexcept {
    return limited() && counts_[leaf] == times_;
  }
  [[nodiscard]] std::uint32_t of(std::uint32_t leaf) const noexcept {
    return limited() ? counts_[leaf] : 0;
  }
  /// How many items of the shard are exhausted.
  [[nodiscard]] std::size_t exhausted() const noexcept { return exhausted_; }
  /// How many draws are left, all together; `items` is the number of items in the shard.
  [[nodiscard]] std::size_t draws_left(std::size_t items) const noexcept {
    return items * times_ - draws_;
  }

  /// To be called some time before `exhausted` or `add`: the counts of a batch lie anywhere.
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
  /// Counts the draws that an item has left; `exhaust` has to follow.
  void use_up(std::uint32_t leaf) noexcept {
    draws_ += times_ - counts_[leaf];
    counts_[leaf] = times_;
  }
  /// Called when these items, of any chunks, have become exhausted.
  void exhaust(std::span<const std::uint32_t> leaves) noexcept;

  // Events of a chunk, called only if there is a limit.

  /// The chunk has joined the queue at the young end.
  void join(std::uint32_t chunk) noexcept { use(chunk).age = next_age_++; }
  /// Rows [begin, end) are about to be ingested: sets the counts of their items to 0.
  void enter(std::uint32_t chunk, std::uint32_t begin, std::uint32_t end) noexcept;
  /// Rows [begin, end), the oldest of the chunk, with `steps` steps, are about to be deselected.
  void leave(std::uint32_t chunk, std::uint32_t begin, std::uint32_t end,
             std::size_t steps) noexcept;
  /// Brings the front and the turn of a chunk up to date. Called after each of these events, and
  /// after the chunk was closed.
  void place(std::uint32_t chunk) noexcept;
  /// The chunk is retired.
  void retire(std::uint32_t chunk) noexcept { use(chunk) = Use{}; }
  /// Sets the count of an item from a checkpoint, clamped to the limit.
  void restore(std::uint32_t leaf, std::uint32_t count) noexcept;

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
    return budget_.shards_with_fronts() != (told_front_ ? 1U : 0U);
  }
  /// Tells the other shards whether this one has such a front.
  void tell_front() noexcept;
  /// Whether this shard's part of all exhausted items is at least as large as its part of the
  /// capacity. At least one shard has such a part.
  [[nodiscard]] bool has_its_part(std::size_t share) const noexcept {
    return exhausted_ * budget_.capacity() >= budget_.exhausted() * share;
  }

 private:
  friend struct Audit;  // Of the tests.

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
  [[nodiscard]] bool is_partial(std::uint32_t chunk) const noexcept {
    return queue_[chunk].steps != 0 && queue_[chunk].deselected != 0;
  }
  void move_front(std::uint32_t chunk) noexcept;
  [[nodiscard]] std::uint64_t turn_of(std::uint32_t chunk) const noexcept;

  storage::ChunkStore& store_;
  const ChunkQueue& queue_;
  Budget& budget_;
  const std::uint32_t first_chunk_;
  const std::uint32_t times_;
  const std::size_t most_partial_;
  base::LazyArray<std::uint32_t> counts_;   ///< Draws of each item, by leaf.
  std::vector<Use> uses_;                   ///< By chunk.
  tree::LargestTree<std::uint64_t> turns_;  ///< By chunk; the largest is next.
  std::uint64_t next_age_ = 0;
  std::size_t exhausted_ = 0;
  std::size_t draws_ = 0;    ///< Sum of counts_ over all items.
  std::size_t partial_ = 0;  ///< Partial chunks.
  bool told_front_ = false;
};

}  // namespace reprise::shard
