#pragma once

#include <reprise/options.hpp>
#include <reprise/schema.hpp>

#include "base/event.hpp"
#include "base/life.hpp"
#include "base/mutex.hpp"
#include "base/random.hpp"
#include "base/sync.hpp"
#include "buffer/format.hpp"
#include "buffer/item_numbers.hpp"
#include "buffer/plan.hpp"
#include "buffer/selectors.hpp"
#include "buffer/shard_set.hpp"
#include "buffer/writer_slots.hpp"
#include "checkpoint/names.hpp"
#include "limiter/limiter.hpp"
#include "limiter/turns.hpp"
#include "limiter/wait.hpp"
#include "storage/chunk_store.hpp"
#include "storage/row_layout.hpp"
#include "window/gather.hpp"
#include "window/window_spec.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace reprise::buffer {

/// Statistics of a buffer since it was made; a load restores them. They have a cache line of their
/// own, because every commit reads the members around them. Any thread. Relaxed: no other data
/// depends on them, except for `dropped_steps` and `changes`.
struct alignas(base::kCacheLine) Counters {
  std::atomic<std::uint64_t> sampled_items{0};
  std::atomic<std::uint64_t> sampled_batches{0};
  std::atomic<std::uint64_t> closed_chunks{0};
  std::atomic<std::uint64_t> applied_updates{0};
  std::atomic<std::uint64_t> stale_updates{0};
  /// How many blocks of episode ids were handed out.
  std::atomic<std::uint64_t> episode_blocks{0};
  /// Steps that a destroyed writer dropped because it found no chunk for their items. They count as
  /// evicted.
  /// D1: added with release; partner: the acquire in BufferCore::stats, which then sees the commits
  /// of these steps.
  std::atomic<std::uint64_t> dropped_steps{0};
  /// The number of changes of a checkpoint's contents that no other count shows: changes of values
  /// of mutable columns, of all weights of a selector, of the ratio, of the version. S1: added with
  /// release, after the change; partner: the acquire in Autosave, whose save then has the change.
  std::atomic<std::uint64_t> changes{0};
  void changed() noexcept { changes.fetch_add(1, std::memory_order_release); }
  /// Steps in the newest save that has returned, evicted and dropped ones included.
  std::atomic<std::uint64_t> saved_steps{0};
  // Counts of attached processes (src/process).
  std::atomic<std::uint64_t> guests{0};
  std::atomic<std::uint64_t> dead_guest_steps{0};
  std::atomic<std::uint64_t> cut_episodes{0};
  /// The version of the policy that the learner has. Stored only when no new draw gives an item
  /// that this version makes outdated.
  std::atomic<std::int64_t> version{0};
  /// The highest version that a call has begun to set: the one that checkpoints store, because
  /// shards in a checkpoint may have dropped items by that version already.
  std::atomic<std::int64_t> version_begun{0};
};

/// State that one save of a buffer leaves for the next.
struct Saves {
  base::Mutex mutex;  ///< Allows one save at a time.
  /// The checkpoint that has the closed chunks of this buffer.
  std::optional<checkpoint::ManifestId> base REPRISE_GUARDED_BY(mutex);
  /// `ChunkStore::changes` of each chunk before the save read the chunk; 0 for chunks beyond the
  /// end.
  std::vector<std::uint32_t> changes REPRISE_GUARDED_BY(mutex);
  /// Random states of the samplers in the checkpoint that the buffer was loaded from. Set before
  /// any other thread has the buffer.
  std::vector<base::Random::State> samplers;
};

/// Everything that a buffer's writers and samplers share, and the events on which they sleep. Any
/// thread.
class BufferCore {
 public:
  /// Throws what the constructor of `ReplayBuffer` throws.
  BufferCore(const Schema& schema, const Options& options);

  // Immutable parts.
  [[nodiscard]] const Format& format() const noexcept { return format_; }
  [[nodiscard]] const Schema& schema() const noexcept { return format_.schema; }
  [[nodiscard]] const window::WindowSpec& window() const noexcept { return format_.window; }
  [[nodiscard]] const storage::RowLayout& layout() const noexcept { return format_.layout; }
  [[nodiscard]] const storage::RowLayout& chunk_layout() const noexcept {
    return format_.chunk_layout;
  }
  [[nodiscard]] const Options& options() const noexcept { return plan_.options; }
  [[nodiscard]] const window::Gather& gather() const noexcept { return *gather_; }
  /// The tag in this buffer's keys.
  [[nodiscard]] std::uint32_t tag() const noexcept { return tag_; }

  // Parts that synchronise themselves.
  [[nodiscard]] Selectors& selectors() noexcept { return selectors_; }
  [[nodiscard]] const Selectors& selectors() const noexcept { return selectors_; }
  [[nodiscard]] limiter::Limiter& limiter() noexcept { return limiter_; }
  [[nodiscard]] WriterSlots& slots() noexcept { return slots_; }
  [[nodiscard]] storage::ChunkStore& store() noexcept { return store_; }
  [[nodiscard]] ShardSet& shards() noexcept { return shards_; }
  [[nodiscard]] ItemNumbers& item_numbers() noexcept { return item_numbers_; }
  [[nodiscard]] base::Life& life() noexcept { return life_; }
  [[nodiscard]] const base::Life& life() const noexcept { return life_; }

  /// Implements `ReplayBuffer::set_version`.
  void set_version(std::int64_t version) noexcept;

  /// The size that the rate limiter uses: items that can be drawn, if some may be exhausted or the
  /// limiter is a `Queue` and not every step begins an item; otherwise resident steps, or 0 while
  /// there is no item.
  [[nodiscard]] std::size_t limiter_items() const noexcept;

  /// Throws std::invalid_argument if the rate limiter cannot hold this ratio.
  void check_samples_per_insert(double samples_per_insert) const;
  /// Implements `ReplayBuffer::set_samples_per_insert`.
  void set_samples_per_insert(double samples_per_insert);

  /// Whether a batch uses up what other batches need (inserts or draws), so that samplers wait in
  /// line.
  [[nodiscard]] bool draws_consume() const noexcept {
    return limiter_.limits_inserts() || shards_.draws_limited();
  }

  /// Takes a block of episode ids for one writer.
  [[nodiscard]] std::uint64_t take_episode_ids() noexcept;
  static constexpr std::uint64_t kEpisodeIdBlock = 1024;

  void close() noexcept { life_.close(); }
  [[nodiscard]] bool closed() const noexcept { return life_.closed(); }

  [[nodiscard]] Stats stats();

  /// Call it only before any other thread has the buffer. `images`: one per shard; `item_numbers`:
  /// how many were taken before the save.
  void restore(std::span<const shard::ShardImage> images, std::uint64_t item_numbers) noexcept;
  Saves saves;

  // The events on which threads sleep, and statistics of their waits.
  base::Event items_event;  ///< Samplers wait here for items or inserts.
  base::Event room_event;   ///< Writers wait here for samples or for room in the queue.
  // Where one call may take what another lacks, the calls wait in line: the first call sleeps on an
  // event above, and the calls behind it on the event of their `Turns`.
  limiter::Turns sampler_turns;
  limiter::Turns writer_turns;
  limiter::WaitMeter writers_for_limiter;
  limiter::WaitMeter samplers_for_items;
  limiter::WaitMeter samplers_for_limiter;

  Counters counters;

 private:
  alignas(base::kCacheLine) const Format format_;
  const Plan plan_;
  const std::uint32_t tag_;
  Selectors selectors_;
  limiter::Limiter limiter_;
  WriterSlots slots_;
  storage::ChunkStore store_;
  const std::unique_ptr<const window::Gather> gather_;
  ShardSet shards_;
  base::Life life_;
  const base::Life::WokenByClose wakes_samplers_{life_, items_event};
  const base::Life::WokenByClose wakes_writers_{life_, room_event};
  const base::Life::WokenByClose wakes_sampler_turns_{life_, sampler_turns.event()};
  const base::Life::WokenByClose wakes_writer_turns_{life_, writer_turns.event()};
  ItemNumbers item_numbers_;
};

}  // namespace reprise::buffer
