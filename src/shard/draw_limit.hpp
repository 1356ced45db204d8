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

/// How often the item of each leaf of a shard was drawn, where that is limited, and which chunks to
/// evict from first because of it. An item is exhausted once it was drawn as often as it may be.
///
/// Steps leave a chunk from its front, so an exhausted item behind one that may be drawn again has
/// to wait for it. The *front* of a chunk is the run of steps before its first item that may be
/// drawn again. Fronts with exhausted items go before any item that may be drawn again.
///
/// A chunk that has lost only some of its steps is *partial*, and costs memory for steps that are
/// gone. So fronts of partial chunks go first; then filled chunks that are all front, one after the
/// other; then other fronts, but only while fewer than `most_partial` chunks are partial. Within a
/// kind the oldest chunk goes first. `buffer/plan.hpp` counts on it: partial are at most these, one
/// that is all front, and open chunks that were emptied and got new steps.
///
/// Externally synchronised by the shard's lock. Every call is O(log chunks), or O(rows concerned)
/// amortised.
class DrawLimit {
 public:
  /// `times` 0: there is no limit; nothing is counted, and no memory is taken.
  DrawLimit(storage::ChunkStore& store, const ChunkQueue& queue, Budget& budget,
            std::uint32_t first_chunk, std::uint32_t chunks, std::uint32_t times,
            std::size_t most_partial);

  /// Memory by row and by chunk, for `Stats`.
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
  /// Exhausted items of the shard.
  [[nodiscard]] std::size_t exhausted() const noexcept { return exhausted_; }
  /// Draws that so many items, all that the shard has, admit.
  [[nodiscard]] std::size_t draws_left(std::size_t items) const noexcept {
    return items * times_ - draws_;
  }

  /// One draw of an item that is not exhausted: true if it was the last.
  bool add(std::uint32_t leaf) noexcept {
    if (!limited()) {
      return false;
    }
    ++draws_;
    return ++counts_[leaf] == times_;
  }
  /// Undoes `add`, before `exhaust`.
  void take_back(std::uint32_t leaf) noexcept {
    if (limited()) {
      --draws_;
      --counts_[leaf];
    }
  }
  /// Items that have become exhausted, of any chunks.
  void exhaust(std::span<const std::uint32_t> leaves) noexcept;

  // What happens to a chunk; called if there is a limit.

  /// It has joined the queue, as its youngest.
  void join(std::uint32_t chunk) noexcept { use(chunk).age = next_age_++; }
  /// Rows [begin, end) are about to be ingested: no item of theirs was ever drawn.
  void enter(std::uint32_t chunk, std::uint32_t begin, std::uint32_t end) noexcept;
  /// Rows [begin, end), with so many steps, are about to leave from the front.
  void leave(std::uint32_t chunk, std::uint32_t begin, std::uint32_t end,
             std::size_t steps) noexcept;
  /// After anything of this, and after the chunk was closed: what that means for its turn.
  void place(std::uint32_t chunk) noexcept;
  /// The chunk is about to be used anew.
  void retire(std::uint32_t chunk) noexcept { use(chunk) = Use{}; }
  /// What a checkpoint says of an item, at most the limit.
  void restore(std::uint32_t leaf, std::uint32_t count) noexcept;

  /// A chunk to evict from, and how many of its steps.
  struct Victim {
    std::uint32_t chunk = storage::kNil;
    std::size_t steps = 0;
  };
  /// Steps before which no item that may be drawn again is to go; 0 steps if there are none.
  [[nodiscard]] Victim front() const noexcept;
  /// Whether other shards have such steps, as far as they told.
  [[nodiscard]] bool others_have_fronts() const noexcept {
    return budget_.shards_with_fronts() != (told_front_ ? 1U : 0U);
  }
  /// Tells the other shards whether this one has.
  void tell_front() noexcept;
  /// Whether this shard has as large a part of all exhausted items as of the capacity, or more. One
  /// of the shards at least has.
  [[nodiscard]] bool has_its_part(std::size_t share) const noexcept {
    return exhausted_ * budget_.capacity() >= budget_.exhausted() * share;
  }

  /// For tests: whether everything follows from the counts. O(rows used).
  [[nodiscard]] bool invariants_hold(std::uint32_t end_chunk) const noexcept;

 private:
  /// What is known of a chunk beside its state.
  struct Use {
    std::uint32_t front = 0;        ///< Rows [deselected, front) hold no item to be drawn again.
    std::uint32_t front_steps = 0;  ///< Steps among these.
    std::uint32_t exhausted = 0;    ///< Exhausted items in [deselected, ingested).
    bool partial = false;
    std::uint64_t age = 0;  ///< Rises in the order in which chunks joined the queue.
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
  base::LazyArray<std::uint32_t> counts_;   ///< By leaf.
  std::vector<Use> uses_;                   ///< By chunk.
  tree::LargestTree<std::uint64_t> turns_;  ///< By chunk: the largest is evicted from next.
  std::uint64_t next_age_ = 0;
  std::size_t exhausted_ = 0;
  std::size_t draws_ = 0;    ///< Of all items of the shard.
  std::size_t partial_ = 0;  ///< Chunks.
  bool told_front_ = false;
};

}  // namespace reprise::shard
