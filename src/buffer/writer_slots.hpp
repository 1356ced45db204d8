#pragma once

#include "base/mutex.hpp"
#include "base/sync.hpp"
#include "storage/free_list.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::buffer {

/// One writer slot per living writer. Each has its count of committed steps on a cache line of its
/// own, so that in the steady state no commit writes a line that writers share. Any thread.
class WriterSlots {
 public:
  explicit WriterSlots(std::size_t max_writers) : slots_(max_writers) {
    free_.reserve(max_writers);
    for (std::size_t i = max_writers; i != 0; --i) {
      free_.push_back(i - 1);
    }
  }

  /// Takes the writer slot given back last or, if all those are taken, the lowest one never used.
  /// Returns nothing if all are taken.
  [[nodiscard]] std::optional<std::size_t> take() REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    if (free_.empty()) {
      return std::nullopt;
    }
    const std::size_t slot = free_.back();
    free_.pop_back();
    alive_.store(slots_.size() - free_.size(), std::memory_order_relaxed);
    return slot;
  }
  void give_back(std::size_t slot) noexcept REPRISE_EXCLUDES(mutex_) {
    const base::MutexLock lock(mutex_);
    free_.push_back(slot);
    alive_.store(slots_.size() - free_.size(), std::memory_order_relaxed);
  }
  /// The number of living writers. Relaxed: for statistics, and for a hint of how many chunks to
  /// touch.
  [[nodiscard]] std::size_t alive() const noexcept {
    return alive_.load(std::memory_order_relaxed);
  }

  /// Where the writer of a slot goes on; in a loaded buffer, where the slot's next writer begins.
  struct WriterPosition {
    std::uint32_t chunk = storage::kNil;       ///< Its open chunk, or kNil.
    std::uint32_t next_shard = storage::kNil;  ///< Its next shard; kNil: the slot had no writer.
    std::uint64_t next_episode = 0;  ///< Its next id; multiples of kEpisodeIdBlock take a block.
  };
  /// Called only by the writer of the slot. Relaxed: a save beside working writers reads positions
  /// of about that moment, and `load` uses those that fit the chunks.
  void set_position(std::size_t slot, const WriterPosition& writer_position) noexcept {
    slots_[slot].chunk.store(writer_position.chunk, std::memory_order_relaxed);
    slots_[slot].next_shard.store(writer_position.next_shard, std::memory_order_relaxed);
    slots_[slot].next_episode.store(writer_position.next_episode, std::memory_order_relaxed);
  }
  [[nodiscard]] WriterPosition writer_position(std::size_t slot) const noexcept {
    return {slots_[slot].chunk.load(std::memory_order_relaxed),
            slots_[slot].next_shard.load(std::memory_order_relaxed),
            slots_[slot].next_episode.load(std::memory_order_relaxed)};
  }
  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }

  /// Call it only before any other thread has the buffer. `committed`: steps committed before the
  /// save.
  void restore(std::uint64_t committed) noexcept {
    slots_.front().committed.store(committed, std::memory_order_relaxed);
  }

  /// Called only by the writer of the slot, and before it publishes the step, so that a thread that
  /// has seen the step ingested sees it counted. Relaxed: the publish (B1) makes it visible. A
  /// store suffices, because a slot has one writer.
  void count_step(std::size_t slot) noexcept {
    std::atomic<std::uint64_t>& steps = slots_[slot].committed;
    steps.store(steps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Committed steps of all writers. Relaxed: the sum includes every step whose ingestion the
  /// caller has seen.
  [[nodiscard]] std::uint64_t committed() const noexcept {
    std::uint64_t sum = 0;
    for (const Slot& slot : slots_) {
      sum += slot.committed.load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  struct alignas(base::kCacheLine) Slot {
    std::atomic<std::uint64_t> committed{0};  ///< Commits of all writers that had this slot.
    std::atomic<std::uint64_t> next_episode{0};
    std::atomic<std::uint32_t> chunk{storage::kNil};
    std::atomic<std::uint32_t> next_shard{storage::kNil};
  };
  std::vector<Slot> slots_;
  std::atomic<std::size_t> alive_{0};  ///< Written under the mutex.
  base::Mutex mutex_;
  std::vector<std::size_t> free_ REPRISE_GUARDED_BY(mutex_);
};

}  // namespace reprise::buffer
