#pragma once

#include <reprise/remover.hpp>
#include <reprise/selector.hpp>

#include "base/cache_line.hpp"
#include "base/mutex.hpp"
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

/// A range of chunks as all threads see it: chunks for writers, the bells that they ring, hints of
/// what is in it, and the only hot lock, under which everything else is (`LockedShard`).
///
/// A shard knows no sibling. `buffer::ShardSet` takes the locks and does what that obliges to.
class Shard {
 public:
  /// Throws what the remover throws.
  Shard(storage::ChunkStore& store, Budget& budget,
        std::span<const std::unique_ptr<SelectorRule>> rules, const Remover& remover,
        const Extent& extent, std::uint32_t tag, const Extras& extras = {});

  // Writers; lock-free.

  [[nodiscard]] ChunkPool& chunks() noexcept { return chunks_; }
  [[nodiscard]] const ChunkPool& chunks() const noexcept { return chunks_; }
  /// Rings after a publish; `closing` if the writer lets go of the chunk for good. True if the
  /// caller has to look for sleeping samplers.
  bool ring(std::uint32_t chunk, bool closing) noexcept;

  // Samplers, without the lock.

  /// Gives back a pin of each chunk; the last one of a retired chunk frees it. Any thread that
  /// pinned.
  void unpin(std::span<const std::uint32_t> chunks) noexcept REPRISE_EXCLUDES(mutex);
  /// Whether a bell waits; a hint.
  [[nodiscard]] bool maybe_rung() const noexcept { return bells_.maybe_rung() || hints_.backlog(); }
  /// What is here: the weights, the items that may be drawn, whatever they weigh, and, where draws
  /// are limited, the draws that these admit.
  [[nodiscard]] const Hints& hints() const noexcept { return hints_; }

  base::Mutex mutex;
  /// Samplers that wait for the lock, so that helping writers may give way. Relaxed: a hint.
  std::atomic<std::uint32_t> samplers_waiting{0};

  [[nodiscard]] LockedShard& locked() noexcept REPRISE_REQUIRES(mutex) { return locked_; }

 private:
  // Not on the line of the mutex, because every ring reads them.
  alignas(base::kCacheLine) storage::ChunkStore& store_;
  ChunkPool chunks_;
  storage::DoorbellList<base::StdSync> bells_;
  Hints hints_;
  alignas(base::kCacheLine) LockedShard locked_ REPRISE_GUARDED_BY(mutex);
};

}  // namespace reprise::shard
