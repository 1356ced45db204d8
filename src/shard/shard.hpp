#pragma once

#include <reprise/remover.hpp>
#include <reprise/selector.hpp>

#include "base/mutex.hpp"
#include "base/sync.hpp"
#include "shard/budget.hpp"
#include "shard/chunk_pool.hpp"
#include "shard/hints.hpp"
#include "shard/locked_shard.hpp"
#include "storage/chunk_store.hpp"
#include "storage/doorbell.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace reprise::shard {

/// What a writer rings for: rows that it has published, or also that it lets go of the chunk for
/// good.
enum class Ring : std::uint8_t { News, Closing };

/// A shard as all threads see it: chunks for writers, the doorbell list, hints, and the only hot
/// lock, which guards everything else (`LockedShard`).
///
/// A shard does not know the other shards. `buffer::ShardSet` takes the locks, and publishes hints
/// and serves writers before it releases them.
class Shard {
 public:
  /// Throws what the rules' `make_shard_selector` and the remover's `make_shard_remover` throw.
  Shard(storage::ChunkStore& store, Budget& budget,
        std::span<const std::unique_ptr<SelectorRule>> rules, const Remover& remover,
        const Extent& extent, std::uint32_t tag, const Extras& extras = {})
      : store_(store),
        budget_(budget),
        chunks_(store, extent),
        hints_(rules.size()),
        locked_({store, budget, chunks_, bells_, hints_}, rules, remover, extent, tag, extras) {
    const base::MutexLock lock(mutex);
    locked_.publish_hints();
  }

  // For writers; lock-free.

  [[nodiscard]] ChunkPool& chunks() noexcept { return chunks_; }
  [[nodiscard]] const ChunkPool& chunks() const noexcept { return chunks_; }
  /// Rings the doorbell of a chunk whose writer has published rows. Returns whether the caller has
  /// to look for sleeping samplers. The next stop of the data path is
  /// `buffer::ShardSet::Lock::ingest`.
  bool ring(std::uint32_t chunk, Ring what) noexcept {
    return bells_.ring(
        chunk, what == Ring::Closing ? storage::kRung | storage::kClosed : storage::kRung,
        [this](std::uint32_t c) -> auto& { return store_.chunk(c).bell; },
        [this](std::uint64_t turn) { return budget_.turn_after(turn); });
  }

  // For samplers, without the lock.

  /// Gives back one pin of each chunk; the last pin of a retired chunk frees it. Called by the
  /// thread that holds these pins. The last stop of the data path.
  void unpin(std::span<const std::uint32_t> chunks) noexcept REPRISE_EXCLUDES(mutex) {
    // The lock costs less than an atomic operation per chunk, so it is taken if it is free. If
    // another thread has it, pins are given back without it.
    const bool locked = mutex.try_lock();
    for (const std::uint32_t chunk : chunks) {
      auto& pins = store_.chunk(chunk).pins;
      if (locked ? pins.unpin_locked() : pins.unpin()) {
        chunks_.reclaim(chunk);
      }
    }
    if (locked) {
      mutex.unlock();
    }
  }
  /// Whether some chunk has rows to ingest; a hint.
  [[nodiscard]] bool maybe_rung() const noexcept { return bells_.maybe_rung() || hints_.backlog(); }
  /// What the shard held when its lock was released last.
  [[nodiscard]] const Hints& hints() const noexcept { return hints_; }

  base::Mutex mutex;
  /// How many samplers and updates wait for the lock. Writers that ingest look at it, to give way.
  /// Relaxed: a hint.
  std::atomic<std::uint32_t> samplers_waiting{0};

  [[nodiscard]] LockedShard& locked() noexcept REPRISE_REQUIRES(mutex) { return locked_; }

 private:
  // On another cache line than the mutex, because every ring reads these members.
  alignas(base::kCacheLine) storage::ChunkStore& store_;
  Budget& budget_;
  ChunkPool chunks_;
  storage::DoorbellList<base::StdSync> bells_;
  Hints hints_;
  alignas(base::kCacheLine) LockedShard locked_ REPRISE_GUARDED_BY(mutex);
};

}  // namespace reprise::shard
