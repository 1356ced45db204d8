#pragma once

#include <reprise/item_key.hpp>
#include <reprise/remover.hpp>
#include <reprise/selector.hpp>

#include "shard/budget.hpp"
#include "shard/chunk_facts.hpp"
#include "shard/chunk_pool.hpp"
#include "shard/chunk_queue.hpp"
#include "shard/draw_limit.hpp"
#include "shard/episode_index.hpp"
#include "shard/hints.hpp"
#include "shard/shard_image.hpp"
#include "shard/victims.hpp"
#include "storage/backlog.hpp"
#include "storage/chunk_store.hpp"
#include "storage/doorbell.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace reprise::shard {

/// Optional features of a shard.
struct Extras {
  std::uint32_t max_times_sampled = 0;  ///< Draws of each item; 0: any number.
  std::size_t most_partial = 1;         ///< See DrawLimit; only with a limit.
  bool episode_index = false;
};

/// Room for a batch of draws, one element per draw in each span.
struct Draws {
  std::span<double> fractions;      ///< In: where to draw, in [0, 1) of the total. Clobbered.
  std::span<std::uint32_t> leaves;  ///< Scratch.
  std::span<float> weights;
  std::span<ItemKey> keys;
  std::span<storage::Place> places;  ///< The items' first rows.
  std::span<std::uint32_t> pinned;   ///< The chunks that were pinned, each to be unpinned once.
};

struct Drawn {
  double total = 0.0;    ///< That the items were drawn from, in the unit of their weights. 0:
                         ///< nothing was drawn.
  std::size_t pins = 0;  ///< In Draws::pinned.
};

/// Counters of one shard; they never run backwards.
struct Counters {
  std::uint64_t ingested_steps = 0;
  std::uint64_t evicted_steps = 0;
  std::size_t retired_pinned = 0;
  std::size_t queued_chunks = 0;
};

/// What a shard holds: the selectors over its items, and the steps in the order of their eviction.
/// Externally synchronised: `Shard::locked` hands it to who has the lock.
///
/// A step with which no item begins, `storage::kStepWithoutItem`, counts and is evicted like the
/// others, and weighs nothing.
///
/// Invariants:
///  - [deselected, ingested) of a chunk's rows are in the selectors; its `steps` counts the steps
///    among them (I3, I5);
///  - a chunk is in the queue if and only if steps > 0; the remover knows it if and only if it is
///    closed as well;
///  - a closed chunk without steps is retired at once, exactly once (I2);
///  - the budget counts this shard's steps together with its siblings' (I5).
class LockedShard {
 public:
  /// What it shares with threads that do not hold the lock.
  struct Shared {
    storage::ChunkStore& store;
    Budget& budget;
    ChunkPool& pool;
    storage::DoorbellList<base::StdSync>& bells;
    Hints& hints;
  };
  /// Throws what the remover throws.
  LockedShard(const Shared& shared, std::span<const std::unique_ptr<SelectorRule>> rules,
              const Remover& remover, const Extent& extent, std::uint32_t tag,
              const Extras& extras);

  /// Ingests at most `max_chunks` rung chunks, latest news included, then evicts while the buffer
  /// is over its budget and this shard over its share, as the remover says; with a limit of draws
  /// also below its share, what is exhausted first (`DrawLimit`). `others` has one summary per
  /// selector, the extremes over all shards. True if bells were left for the next call. The next
  /// stop of the data path is `draw`.
  bool ingest(std::span<const SelectorSummary> others, std::size_t max_chunks) noexcept;

  /// Tells those without the lock what has changed, if anything; before each release of it.
  void publish_hints() noexcept;

  /// Draws one item per fraction and pins their chunks, which keeps their rows for `Gather::items`,
  /// the next stop of the data path.
  Drawn draw(std::size_t selector, const Draws& draws) noexcept;

  /// Sets weights of items by key, skipping stale keys and exhausted items. Returns how many were
  /// not stale. `leaves` is scratch; weights are compacted in place.
  std::size_t update(std::size_t selector, std::span<const ItemKey> keys, std::span<float> weights,
                     std::span<std::uint32_t> leaves) noexcept;

  /// The key of the item that begins with this step, if it is here and there is an index.
  [[nodiscard]] std::optional<ItemKey> find(std::uint64_t episode, std::uint64_t position) noexcept;

  // What a draw from a snapshot of all shards is made of: choose leaves, then pin them.

  [[nodiscard]] ShardSelector& selector(std::size_t selector) noexcept {
    hints_stale_ = true;
    return *selectors_[selector];
  }
  [[nodiscard]] DrawLimit& limit() noexcept {
    hints_stale_ = true;
    return limit_;
  }
  /// Hides items that are exhausted from every selector, for good.
  void exhaust(std::span<const std::uint32_t> leaves) noexcept;
  /// Where an item is, and its key.
  [[nodiscard]] storage::Place place(std::uint32_t leaf) const noexcept {
    return store_.place(first_slot() + leaf);
  }
  [[nodiscard]] ItemKey key(std::uint32_t leaf) const noexcept;
  /// Gives items their keys and places, pins their chunks, once for draws in a row from one chunk,
  /// and tells the remover of them. Returns how many were pinned. Clobbers the leaves.
  std::size_t hand_out(std::span<std::uint32_t> leaves, std::span<ItemKey> keys,
                       std::span<storage::Place> places, std::span<std::uint32_t> pinned) noexcept;
  /// Pins each of these chunks once.
  void pin(std::span<const std::uint32_t> chunks) noexcept;
  /// Whether the remover hears of draws; then of their chunks, once per item. Clobbers them.
  [[nodiscard]] bool tells_remover() const noexcept { return victims_.wants_samples(); }
  void tell_remover(std::span<std::uint32_t> chunks) noexcept;

  // locked_shard_image.cpp: checkpoints.

  /// What there is at this moment. O(items).
  void store(ShardImage& image) noexcept;
  /// Pins a chunk of an image, unless it was evicted meanwhile.
  [[nodiscard]] bool pin_stored(const ChunkImage& image) noexcept;
  /// Into a shard that was never used, before any other thread has the buffer. Rows, priorities and
  /// item numbers of the chunks are in place, and the image is one that can be: each chunk once,
  /// with a step that has not left.
  void restore(const ShardImage& image, std::span<const SelectorSummary> others) noexcept;

  // What statistics and tests ask.

  [[nodiscard]] Counters counters() const noexcept;
  /// For tests: whether the invariants above hold. O(rows used).
  [[nodiscard]] bool invariants_hold() noexcept;

 private:
  void ingest_chunk(const storage::News& news, std::span<const SelectorSummary> others) noexcept;
  void restore_chunk(const ChunkImage& image, std::span<const SelectorSummary> others) noexcept;
  void evict() noexcept;
  std::size_t deselect(std::uint32_t chunk, std::size_t steps) noexcept;
  void retire(std::uint32_t chunk) noexcept;
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
  const std::uint32_t tag_;

  std::vector<std::unique_ptr<ShardSelector>> selectors_;
  EpisodeIndex index_;
  ChunkQueue queue_;
  DrawLimit limit_;
  const ChunkFacts facts_;
  Victims victims_;
  storage::Backlog<base::StdSync> backlog_;
  std::size_t steps_ = 0;
  std::size_t steps_without_item_ = 0;  ///< Among these.
  std::uint64_t ingested_ = 0;          ///< Steps, ever.
  std::uint64_t evicted_ = 0;           ///< Likewise.
  bool hints_stale_ = true;             ///< Something may have changed since they were published.
};

}  // namespace reprise::shard
