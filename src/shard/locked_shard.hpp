#pragma once

#include <reprise/item.hpp>
#include <reprise/remover.hpp>
#include <reprise/selector.hpp>

#include "shard/budget.hpp"
#include "shard/chunk_pool.hpp"
#include "shard/chunk_queue.hpp"
#include "shard/draw_limit.hpp"
#include "shard/episode_index.hpp"
#include "shard/fresh_items.hpp"
#include "shard/hints.hpp"
#include "shard/policy_versions.hpp"
#include "shard/removed_items.hpp"
#include "shard/row_index.hpp"
#include "shard/selection.hpp"
#include "shard/shard_image.hpp"
#include "shard/slots.hpp"
#include "shard/victims.hpp"
#include "storage/chunk_store.hpp"
#include "storage/doorbell.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace reprise::shard {

/// Optional features of a shard.
struct Extras {
  std::uint32_t draws_per_item = 0;  ///< The most draws of each item; 0: no limit.
  std::size_t max_partial = 1;       ///< See DrawLimit.
  bool episode_index = false;
  bool may_outdate = false;  ///< Whether items may become outdated (`PolicyVersions`).

  /// Whether items may become exhausted, other than by being removed.
  [[nodiscard]] bool may_exhaust() const noexcept { return draws_per_item != 0 || may_outdate; }
};

/// The sums of the weights of an episode's items up to a position, and of its items after that.
struct EpisodeSums {
  std::uint64_t episode;
  std::uint64_t position;
  double upto;
  double after;
};

/// Counters of one shard. Counts of steps and items never fall; the other counts are of one moment.
struct Counters {
  std::uint64_t ingested_steps = 0;
  std::uint64_t evicted_steps = 0;
  std::uint64_t outdated_items = 0;  ///< Items that became outdated before they were exhausted.
  std::size_t retired_pinned = 0;
  std::size_t queued_chunks = 0;
  std::size_t chunks_touched = 0;
  Memory indices;  ///< The memory of the shard's indices.
};

/// The part of a shard under its lock: its chunks in the eviction order, and the indices of their
/// rows, which are told every event (`RowIndex`). Externally synchronised: `Shard::locked` returns
/// it to the holder of the lock.
///
/// A step without an item (`storage::kStepWithoutItem`) is counted and evicted like any other; its
/// weight is 0. The step of a removed item is not evicted early, as other windows may read its row.
///
/// Invariants:
///  - [deselected, ingested) of a chunk's rows are in the selectors; its `steps` counts the steps
///    among them (I3, I5);
///  - a chunk is in the queue if and only if steps > 0; the remover may choose it if and only if it
///    is closed as well;
///  - a closed chunk without steps is retired at once, exactly once (I2);
///  - the budget counts the steps of this shard together with those of the other shards (I5).
class LockedShard {
 public:
  /// The parts of a shard that threads without the lock use too.
  struct Shared {
    storage::ChunkStore& store;
    Budget& budget;
    ChunkPool& pool;
    storage::DoorbellList<base::StdSync>& bells;
    Hints& hints;
  };
  /// Throws what the rules' `make_shard_selector` and the remover's `make_shard_remover` throw.
  LockedShard(const Shared& shared, std::span<const std::unique_ptr<SelectorRule>> rules,
              const Remover& remover, const Extent& extent, std::uint32_t tag,
              const Extras& extras);

  /// Ingests at most `max_chunks` chunks that have rung. While the buffer is over its capacity, it
  /// also evicts from the victims that `Victims` chooses, if they are in this shard. If other
  /// shards have to evict, it stops once the excess is above `Budget::max_excess`. `others`: one
  /// summary per selector with the maxima over all shards. Returns whether chunks were left for the
  /// next call. The next stop of the data path is `draw`.
  bool ingest(std::span<const SelectorSummary> others, std::size_t max_chunks) noexcept;
  /// Evicts while the buffer is over its capacity. If the locks of other shards are taken, it also
  /// evicts steps although other shards have older ones.
  void evict(Others others = Others::Free) noexcept;

  /// Publishes hints if something may have changed. Called before each release of the lock.
  void publish_hints() noexcept;

  /// Draws an item for each target, a position in [0, 1) of the total weight. If the slots have
  /// room for pins, it pins the items' chunks, so that their rows stay for `Gather::items`, the
  /// next stop of the data path. Overwrites the targets. Draws nothing if the total is 0.
  Drawn draw(std::size_t selector, std::span<double> targets, const Slots& slots) noexcept;

  /// Writes the keys of all items that can be drawn in `count` chunks of the shard, from its chunk
  /// number `first` on; returns how many. `keys` has room for all rows of these chunks.
  std::size_t list_items(std::uint32_t first, std::uint32_t count, ItemKey* keys) const noexcept;
  /// Draws each item whose key is in the slots once, into the first slots. Skips items that are
  /// gone or weigh nothing.
  Drawn draw_items(std::size_t selector, const Slots& slots) noexcept;

  /// Items that are ingested from now on are fresh until they are drawn. Throws std::bad_alloc.
  void track_fresh() { fresh_.track(); }
  /// Draws fresh items, the oldest first: as many as there are slots, or all if there are fewer.
  /// Skips items that weigh nothing, which then are not fresh any more either.
  Drawn draw_fresh(std::size_t selector, const Slots& slots) noexcept;

  /// Sets weights of items by key; skips stale keys, and exhausted and removed items. Returns how
  /// many keys were applied. `leaves` is scratch, and `weights` is overwritten. The last stop of an
  /// update.
  std::size_t update(std::size_t selector, std::span<const ItemKey> keys, std::span<float> weights,
                     std::span<std::uint32_t> leaves) noexcept;

  /// Sets the weight of every item that is neither exhausted nor removed.
  void update_all(std::size_t selector, float weight) noexcept;

  /// Items below this version of the policy are not drawn any more. O(log items) for each such
  /// item.
  void raise_oldest(std::int64_t version) noexcept {
    versions_.raise_oldest(version);
    drop_outdated();
  }

  /// Evicts every step that was ingested.
  void clear() noexcept;

  /// Removes items for good: they are neither drawn nor found any more, and their keys are stale.
  /// `remove_episode` needs the episode index. Both return how many items they removed. O(log
  /// items) for each item, and O(rows) for an episode.
  std::size_t remove(std::span<const ItemKey> keys) noexcept;
  std::size_t remove_episode(std::uint64_t episode) noexcept;

  /// The key of the item that begins with this step, if the item is in this shard and the episode
  /// index is enabled.
  [[nodiscard]] std::optional<ItemKey> find(std::uint64_t episode, std::uint64_t position) noexcept;

  /// Adds to `sums` the weights of this shard's items of the episode whose positions are in this
  /// block of the episode index. Returns false if the index has no such items. Needs the index.
  bool add_up(std::size_t selector, std::uint64_t block, EpisodeSums& sums) noexcept;

  /// The place of the item with this key, unless the item was evicted or removed. Also of an
  /// exhausted item. The key's slot must be one of this shard.
  [[nodiscard]] std::optional<storage::Place> find(ItemKey key) const noexcept;
  /// How many rows of the chunk, from its first on, were ingested.
  [[nodiscard]] std::uint32_t ingested(std::uint32_t chunk) const noexcept {
    return queue_[chunk].ingested;
  }

  /// What a selector stores of the item with this key (`ShardSelector::store`): its weight in the
  /// units of `update`. NaN if the item is gone or exhausted.
  [[nodiscard]] float stored(std::size_t selector, ItemKey key) const noexcept;
  /// Items that can be drawn.
  [[nodiscard]] std::size_t items() const noexcept {
    // If exhausted items are counted, removed items are among them.
    return steps_ - steps_without_item_ - (limit_.enabled() ? limit_.exhausted() : removed_.size());
  }

  // The parts of a draw from all shards at one moment (`SnapshotDraw`): choose leaves, then pin
  // their chunks.

  [[nodiscard]] ShardSelector& selector(std::size_t selector) noexcept {
    hints_stale_ = true;
    return selection_[selector];
  }
  [[nodiscard]] DrawLimit& limit() noexcept {
    hints_stale_ = true;
    return limit_;
  }
  /// The place of a leaf's item; `key` returns the item's key.
  [[nodiscard]] storage::Place place(std::uint32_t leaf) const noexcept {
    return store_.place(first_slot() + leaf);
  }
  [[nodiscard]] ItemKey key(std::uint32_t leaf) const noexcept {
    const auto [chunk, row] = place(leaf);
    return ItemKey::make(first_slot() + leaf, queue_[chunk].generation_of(row), tag_);
  }
  /// Writes the keys and places of the items of these leaves, pins their chunks, and tells the
  /// indices that the items were drawn. Consecutive draws from one chunk share a pin. Returns how
  /// many pins were taken. Overwrites the leaves.
  std::size_t fill_slots(const Slots& slots) noexcept;
  /// Pins each of these chunks once.
  void pin(std::span<const std::uint32_t> chunks) noexcept {
    for (const std::uint32_t chunk : chunks) {
      store_.chunk(chunk).pins.pin();
    }
  }

  // Checkpoints use these; their source is locked_shard_image.cpp.

  /// Writes the image of this moment. O(items).
  void store(ShardImage& image) noexcept;
  /// Pins a chunk of an image. Returns false if the chunk was evicted since.
  [[nodiscard]] bool pin_stored(const ChunkImage& image) noexcept;
  /// Fills a shard that was never used, before any other thread has the buffer. Rows, priorities
  /// and item numbers of the chunks have to be in place. The image has to be valid: it has each
  /// chunk at most once, and each with a step that has not been deselected.
  void restore(const ShardImage& image, std::span<const SelectorSummary> others) noexcept;

  /// For statistics.
  [[nodiscard]] Counters counters() const noexcept;

 private:
  friend struct Audit;  // The tests' audit.

  /// Calls event(index) for every index that is enabled.
  template <class Event>
  void notify_indices(const Event& event) noexcept {
    notify_indices(*this, event);
  }
  template <class Event>
  void notify_indices(const Event& event) const noexcept {
    notify_indices(*this, event);
  }
  template <class Self, class Event>
  static void notify_indices(Self& self, const Event& event) noexcept {
    const auto notify = [&](auto& index) {
      if (index.enabled()) {
        event(index);
      }
    };
    notify(self.selection_);
    notify(self.removed_);
    notify(self.limit_);
    notify(self.episodes_);
    notify(self.fresh_);
    notify(self.versions_);
    notify(self.victims_);
  }

  void ingest_chunk(const storage::News& news, std::span<const SelectorSummary> others) noexcept;
  void restore_chunk(const ChunkImage& image, std::span<const SelectorSummary> others) noexcept;
  void drop_outdated() noexcept;
  void publish_oldest() noexcept;
  std::size_t deselect(std::uint32_t chunk, std::size_t steps) noexcept;
  void remove(storage::Place place) noexcept;
  /// Whether a key names a row that is in the selectors. Its weight is 0 there if the row has no
  /// item, or one that is exhausted or removed. Without a branch, because updates check every key.
  [[nodiscard]] bool in_selectors(ItemKey key) const noexcept {
    const auto [chunk, row] = store_.place(key.slot());
    const ChunkState& state = queue_[chunk];
    const bool current = key.generation() == state.generation_of(row);
    const bool selected = row - state.deselected < state.ingested - state.deselected;
    return (static_cast<unsigned>(current) & static_cast<unsigned>(selected)) != 0;
  }
  /// Whether there is an item at a place, exhausted or not.
  [[nodiscard]] bool holds_item(storage::Place place) const noexcept {
    const ChunkState& state = queue_[place.chunk];
    return place.row >= state.deselected && place.row < state.ingested &&
           storage::is_item(store_.priorities(place.chunk)[place.row]) &&
           !removed_.has(leaf(place.chunk, place.row));
  }
  void retire(std::uint32_t chunk) noexcept;
  [[nodiscard]] std::size_t drop_weightless(std::size_t selector,
                                            std::span<std::uint32_t> leaves) const noexcept;
  std::size_t drop_non_items(std::span<std::uint32_t> leaves, std::span<float> weights) noexcept;
  [[nodiscard]] std::uint32_t first_slot() const noexcept {
    return first_chunk_ * store_.chunk_rows();
  }
  [[nodiscard]] std::uint32_t leaf(std::uint32_t chunk, std::uint32_t row) const noexcept {
    return (chunk - first_chunk_) * store_.chunk_rows() + row;
  }

  storage::ChunkStore& store_;
  Budget& budget_;
  ChunkPool& pool_;
  storage::DoorbellList<base::StdSync>& bells_;
  Hints& hints_;
  const std::uint32_t first_chunk_;
  const std::uint32_t budget_index_;  ///< The shard's number in the budget.
  const std::uint32_t tag_;

  ChunkQueue queue_;
  Selection selection_;
  RemovedItems removed_;
  DrawLimit limit_;
  EpisodeIndex episodes_;
  FreshItems fresh_;
  PolicyVersions versions_;
  Victims victims_;
  storage::Backlog<base::StdSync> backlog_;
  std::size_t steps_ = 0;
  std::size_t steps_without_item_ = 0;  ///< Included in steps_.
  std::uint64_t ingested_ = 0;          ///< Steps ever ingested.
  std::uint64_t evicted_ = 0;           ///< Steps ever evicted.
  std::uint64_t outdated_ = 0;          ///< Items that ever left because they were outdated.
  bool hints_stale_ = true;             ///< The shard may have changed since hints were published.
};

}  // namespace reprise::shard
