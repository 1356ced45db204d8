#pragma once

#include <reprise/item_key.hpp>
#include <reprise/remover.hpp>
#include <reprise/selector.hpp>

#include "base/cache_line.hpp"
#include "base/mutex.hpp"
#include "select/ordered_selector.hpp"
#include "shard/budget.hpp"
#include "shard/chunk_facts.hpp"
#include "shard/chunk_queue.hpp"
#include "shard/draw_limit.hpp"
#include "shard/episode_index.hpp"
#include "shard/hints.hpp"
#include "shard/shard_image.hpp"
#include "shard/victims.hpp"
#include "storage/backlog.hpp"
#include "storage/chunk_store.hpp"
#include "storage/doorbell.hpp"
#include "storage/free_list.hpp"
#include "storage/fresh_chunks.hpp"

#include <atomic>
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
  std::span<storage::Place> places;  ///< Of the items' first rows.
  std::span<std::uint32_t> pinned;   ///< The chunks that were pinned, each to be unpinned once.
};

struct Drawn {
  double total = 0.0;    ///< That the items were drawn from, in the unit of their weights. 0:
                         ///< nothing was drawn.
  std::size_t pins = 0;  ///< In Draws::pinned.
};

/// Counters of one shard; they never run backwards.
struct Counters {
  std::uint64_t ingested_items = 0;
  std::uint64_t evicted_items = 0;
  std::size_t retired_pinned = 0;
  std::size_t queued_chunks = 0;
};

/// What part of the buffer a shard has.
struct Extent {
  std::uint32_t first_chunk = 0;
  std::uint32_t chunks = 0;
  std::size_t share = 0;        ///< Of the capacity, in steps.
  std::uint32_t set_aside = 0;  ///< Chunks from the first that have room on the disk already.
};

/// A range of chunks, the selectors over their items, and the only hot lock.
///
/// The first group of functions belongs to writers and is lock-free, the second to samplers that do
/// not hold `mutex`; the third needs it.
/// A shard knows no sibling: what it needs of the others comes as an argument.
///
/// An item here is any step: one with which no window begins, `storage::kStepAlone`, counts and is
/// evicted like the others, and weighs nothing.
///
/// Invariants, under the lock:
///  - [deselected, ingested) of a chunk's rows are in the selectors; items counts the steps among
///    them (I3, I5);
///  - a chunk is in `order_` if and only if items > 0; the remover knows it if and only if it is
///    closed as well;
///  - a closed chunk without items is retired at once, exactly once (I2);
///  - `budget_` counts this shard's items together with its siblings' (I5).
class Shard {
 public:
  /// Throws what the remover throws.
  Shard(storage::ChunkStore& store, Budget& budget,
        std::span<const std::unique_ptr<SelectorRule>> rules, const Remover& remover,
        const Extent& extent, std::uint32_t tag, const Extras& extras = {});

  // ---- writers; lock-free ----

  /// A chunk that a destroyed writer left open; kNil if there is none.
  std::uint32_t take_open() noexcept;
  /// A chunk used before and reclaimed; kNil if there is none.
  std::uint32_t take_recycled() noexcept;
  /// A chunk never used; kNil if there is none, or no room on the disk for it: then `disk_error` is
  /// set to an errno value.
  std::uint32_t take_fresh(int& disk_error) noexcept;
  /// Leaves a chunk open for the next writer.
  void hand_over(std::uint32_t chunk) noexcept;
  /// Rings after a publish; `closing` if the writer lets go of the chunk for good. True if the
  /// caller has to look for sleeping samplers.
  bool ring(std::uint32_t chunk, bool closing) noexcept;
  // ---- samplers, without the lock ----

  /// Gives back a pin of each chunk; the last one of a retired chunk frees it. Any thread that
  /// pinned.
  void unpin(std::span<const std::uint32_t> chunks) noexcept REPRISE_EXCLUDES(mutex);

  /// Hints, relaxed: whether a bell waits; a selector's summary as of the last unlock.
  [[nodiscard]] bool maybe_rung() const noexcept {
    return bells_.maybe_rung() || has_backlog_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] SelectorSummary hint(std::size_t selector) const noexcept {
    return hints_.read(selector);
  }
  /// Items that may be drawn, whatever they weigh, as of the last unlock. Relaxed: a hint.
  [[nodiscard]] std::size_t windows() const noexcept {
    return windows_.load(std::memory_order_relaxed);
  }
  /// Draws that these admit, whatever they weigh, where draws are limited; likewise.
  [[nodiscard]] std::size_t draws_left() const noexcept {
    return draws_left_.load(std::memory_order_relaxed);
  }

  // ---- under the lock ----

  base::Mutex mutex;

  /// Samplers that wait for the lock, so that helping writers may give way. Relaxed: a hint.
  std::atomic<std::uint32_t> samplers_waiting{0};

  /// Ingests at most `max_chunks` rung chunks, latest news included, then evicts while the buffer
  /// is over its budget and this shard over its share, as the remover says; with a limit of draws
  /// also below its share, what is exhausted first (`DrawLimit`). `elsewhere` has one
  /// summary per selector. True if bells were left for the next call.
  bool ingest(std::span<const SelectorSummary> elsewhere, std::size_t max_chunks) noexcept
      REPRISE_REQUIRES(mutex);

  /// Draws one item per fraction and pins their chunks.
  Drawn draw(std::size_t selector, const Draws& draws) noexcept REPRISE_REQUIRES(mutex);

  /// The key of the item that begins with this step, if it is here and there is an index.
  [[nodiscard]] std::optional<ItemKey> find(std::uint64_t episode, std::uint64_t position) noexcept
      REPRISE_REQUIRES(mutex);

  // What a draw from a snapshot of all shards is made of: choose leaves, then pin them.

  /// Null if items are drawn by weight.
  [[nodiscard]] select::OrderedSelector* order_of(std::size_t selector) noexcept
      REPRISE_REQUIRES(mutex) {
    return orders_[selector];
  }
  [[nodiscard]] ShardSelector& half(std::size_t selector) noexcept REPRISE_REQUIRES(mutex) {
    return *selectors_[selector];
  }
  [[nodiscard]] DrawLimit& limit() noexcept REPRISE_REQUIRES(mutex) { return limit_; }
  /// Hides items that are exhausted from every selector, for good.
  void exhaust(std::span<const std::uint32_t> leaves) noexcept REPRISE_REQUIRES(mutex);
  /// Where an item is, and its key.
  [[nodiscard]] storage::Place place(std::uint32_t leaf) const noexcept {
    return store_.place(first_slot() + leaf);
  }
  [[nodiscard]] ItemKey key(std::uint32_t leaf) const noexcept REPRISE_REQUIRES(mutex);
  /// Gives items their keys and places, pins their chunks, once for draws in a row from one chunk,
  /// and tells the remover of them. Returns how many were pinned. Clobbers the leaves.
  std::size_t hand_out(std::span<std::uint32_t> leaves, std::span<ItemKey> keys,
                       std::span<storage::Place> places, std::span<std::uint32_t> pinned) noexcept
      REPRISE_REQUIRES(mutex);
  /// Pins each of these chunks once.
  void pin(std::span<const std::uint32_t> chunks) noexcept REPRISE_REQUIRES(mutex);
  /// Whether the remover hears of draws; then of their chunks, once per item. Clobbers them.
  [[nodiscard]] bool tells_remover() const noexcept REPRISE_REQUIRES(mutex) {
    return victims_.wants_samples();
  }
  void tell_remover(std::span<std::uint32_t> chunks) noexcept REPRISE_REQUIRES(mutex);
  void publish_hints() noexcept REPRISE_REQUIRES(mutex);

  /// Sets weights of items by key, skipping stale keys and exhausted items. Returns how many were
  /// not stale. `leaves` is scratch; weights are compacted in place.
  std::size_t update(std::size_t selector, std::span<const ItemKey> keys, std::span<float> weights,
                     std::span<std::uint32_t> leaves) noexcept REPRISE_REQUIRES(mutex);

  [[nodiscard]] Counters counters() const noexcept REPRISE_REQUIRES(mutex);

  // shard_image.cpp: checkpoints.

  /// What there is at this moment. O(items).
  void store(ShardImage& image) noexcept REPRISE_REQUIRES(mutex);
  /// Pins a chunk of an image, unless it was evicted meanwhile.
  [[nodiscard]] bool pin_stored(const ChunkImage& image) noexcept REPRISE_REQUIRES(mutex);
  /// Into a shard that was never used, before any other thread has the buffer. Rows, priorities and
  /// order of the chunks are in place, and the image is one that can be: each chunk once, with a
  /// step that has not left.
  void restore(const ShardImage& image, std::span<const SelectorSummary> elsewhere) noexcept
      REPRISE_REQUIRES(mutex);

  /// Whether the invariants above hold. For tests; O(rows used).
  [[nodiscard]] bool invariants_hold() noexcept REPRISE_REQUIRES(mutex);

  /// Chunks ever used.
  [[nodiscard]] std::uint32_t chunks_touched() const noexcept;

 private:
  void ingest_chunk(const storage::News& news, std::span<const SelectorSummary> elsewhere) noexcept
      REPRISE_REQUIRES(mutex);
  void restore_chunk(const ChunkImage& image, std::span<const SelectorSummary> elsewhere) noexcept
      REPRISE_REQUIRES(mutex);
  void evict() noexcept REPRISE_REQUIRES(mutex);
  [[nodiscard]] DrawLimit::Victim next_victim() noexcept REPRISE_REQUIRES(mutex);
  std::size_t deselect(std::uint32_t chunk, std::size_t items) noexcept REPRISE_REQUIRES(mutex);
  void retire(std::uint32_t chunk) noexcept REPRISE_REQUIRES(mutex);
  void free_chunk(std::uint32_t chunk) noexcept;
  std::size_t drop_non_items(std::span<std::uint32_t> leaves, std::span<float> weights) noexcept
      REPRISE_REQUIRES(mutex);
  [[nodiscard]] std::uint32_t first_slot() const noexcept {
    return first_chunk_ * store_.chunk_rows();
  }
  [[nodiscard]] std::uint32_t leaf(std::uint32_t chunk, std::uint32_t row) const noexcept {
    return (chunk - first_chunk_) * store_.chunk_rows() + row;
  }

  // Immutable; not on the line of the mutex, because every ring reads them.
  alignas(base::kCacheLine) storage::ChunkStore& store_;
  Budget& budget_;
  const std::uint32_t first_chunk_;
  const std::uint32_t chunks_;
  const std::size_t share_;
  const std::uint32_t set_aside_;
  const std::uint32_t tag_;

  // Lock-free.
  storage::DoorbellList<base::StdSync> bells_;
  storage::FreeList<base::StdSync> free_;
  storage::FreeList<base::StdSync> open_;
  storage::FreshChunks<base::StdSync> fresh_;
  /// Handed out by `fresh_` when there was no room on the disk, and never used.
  storage::FreeList<base::StdSync> roomless_;
  std::atomic<bool> has_backlog_{false};  ///< Hint.
  Hints hints_;
  std::atomic<std::size_t> windows_{0};     ///< Hint.
  std::atomic<std::size_t> draws_left_{0};  ///< Hint.

  // Guarded.
  std::vector<std::unique_ptr<ShardSelector>> selectors_ REPRISE_GUARDED_BY(mutex);
  /// The same halves, where they are ordered; else null.
  std::vector<select::OrderedSelector*> orders_ REPRISE_GUARDED_BY(mutex);
  EpisodeIndex index_ REPRISE_GUARDED_BY(mutex);
  ChunkQueue order_ REPRISE_GUARDED_BY(mutex);
  DrawLimit limit_ REPRISE_GUARDED_BY(mutex);
  const ChunkFacts facts_ REPRISE_GUARDED_BY(mutex);
  Victims victims_ REPRISE_GUARDED_BY(mutex);
  storage::Backlog<base::StdSync> backlog_ REPRISE_GUARDED_BY(mutex);
  std::size_t items_ REPRISE_GUARDED_BY(mutex) = 0;
  std::size_t alone_ REPRISE_GUARDED_BY(mutex) = 0;  ///< Of these, without a window.
  /// With a limit of draws: whether the next victim is the oldest chunk, not the remover's choice.
  bool oldest_next_ REPRISE_GUARDED_BY(mutex) = false;
  std::uint32_t in_turn_ REPRISE_GUARDED_BY(mutex) = storage::kNil;  ///< That victim.
  std::uint64_t ingested_ REPRISE_GUARDED_BY(mutex) = 0;
  std::uint64_t evicted_ REPRISE_GUARDED_BY(mutex) = 0;
};

/// Holds a shard's lock for a sampler or an update, which helping writers give way to.
class REPRISE_SCOPED_CAPABILITY SamplerLock {
 public:
  explicit SamplerLock(Shard& shard) REPRISE_ACQUIRE(shard.mutex) : shard_(shard) {
    // Relaxed: a hint.
    shard.samplers_waiting.fetch_add(1, std::memory_order_relaxed);
    shard.mutex.lock();
    shard.samplers_waiting.fetch_sub(1, std::memory_order_relaxed);
  }
  ~SamplerLock() REPRISE_RELEASE() { shard_.mutex.unlock(); }
  SamplerLock(const SamplerLock&) = delete;
  SamplerLock& operator=(const SamplerLock&) = delete;

 private:
  Shard& shard_;
};

}  // namespace reprise::shard
