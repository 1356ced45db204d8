#pragma once

#include <reprise/options.hpp>
#include <reprise/schema.hpp>
#include <reprise/stats.hpp>

#include "base/cache_line.hpp"
#include "base/event.hpp"
#include "base/life.hpp"
#include "buffer/counters.hpp"
#include "buffer/plan.hpp"
#include "buffer/saves.hpp"
#include "buffer/selectors.hpp"
#include "buffer/shard_set.hpp"
#include "buffer/writer_slots.hpp"
#include "limiter/demand.hpp"
#include "limiter/limiter.hpp"
#include "limiter/wait_meter.hpp"
#include "storage/chunk_store.hpp"
#include "storage/row_layout.hpp"
#include "window/gather.hpp"
#include "window/window_spec.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace reprise::buffer {

/// Everything that a buffer's writers and samplers share, and the events on which they sleep. Any
/// thread.
class BufferCore {
 public:
  /// Throws what the constructor of `ReplayBuffer` throws.
  BufferCore(const Schema& schema, const Options& options);

  // Immutable parts.
  [[nodiscard]] const Schema& schema() const noexcept { return schema_; }
  [[nodiscard]] const Options& options() const noexcept { return plan_.options; }
  [[nodiscard]] const window::WindowSpec& window() const noexcept { return window_; }
  [[nodiscard]] const storage::RowLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const window::Gather& gather() const noexcept { return gather_; }
  /// The tag in this buffer's keys.
  [[nodiscard]] std::uint32_t tag() const noexcept { return tag_; }

  // Parts that do their own synchronisation.
  [[nodiscard]] Selectors& selectors() noexcept { return selectors_; }
  [[nodiscard]] const Selectors& selectors() const noexcept { return selectors_; }
  [[nodiscard]] limiter::Limiter& limiter() noexcept { return limiter_; }
  [[nodiscard]] WriterSlots& slots() noexcept { return slots_; }
  [[nodiscard]] storage::ChunkStore& store() noexcept { return store_; }
  [[nodiscard]] ShardSet& shards() noexcept { return shards_; }
  [[nodiscard]] base::Life& life() noexcept { return life_; }
  [[nodiscard]] const base::Life& life() const noexcept { return life_; }

  /// The size that the rate limiter uses: items that can be drawn, if `max_times_sampled` is set or
  /// the limiter is a `Queue` over `Sequences`; otherwise resident steps, or 0 while there is no
  /// item.
  [[nodiscard]] std::size_t counted() const noexcept;

  /// Chunks per shard that writers may touch freely: a guide, not a limit.
  [[nodiscard]] std::size_t usual_chunks() const noexcept {
    return plan_.usual_chunks + slots_.alive() / shards_.size() + 2;
  }

  /// A block of episode ids for one writer.
  [[nodiscard]] std::uint64_t take_episode_ids() noexcept;
  static constexpr std::uint64_t kEpisodeIdBlock = 1024;

  /// Takes the number of the item that its writer is deciding.
  /// O1: release; partner: item_numbers_taken. The calling writer has rung for everything that it
  /// decided before.
  [[nodiscard]] std::uint64_t take_item_number() noexcept {
    return next_item_.fetch_add(1, std::memory_order_release);
  }
  /// How many item numbers were taken. O1: acquire; partner: take_item_number. A thread that
  /// ingests everything after this call finds, for each item with a lower number, all items that
  /// the same writer decided before it.
  [[nodiscard]] std::uint64_t item_numbers_taken() const noexcept {
    return next_item_.load(std::memory_order_acquire);
  }

  void close() noexcept { life_.close(); }
  [[nodiscard]] bool closed() const noexcept { return life_.closed(); }

  [[nodiscard]] Stats stats();

  /// Only before any other thread has the buffer. `images`: one per shard; `item_numbers`: how many
  /// were taken before the save.
  void restore(std::span<const shard::ShardImage> images, std::uint64_t item_numbers) noexcept;
  Saves saves;

  // The events on which threads sleep, and statistics of their waits.
  base::Event items_event;  ///< Samplers wait here for items or inserts.
  base::Event room_event;   ///< Writers wait here for samples or for room in the queue.
  limiter::Demand demand{items_event};
  limiter::WaitMeter writers_for_limiter;
  limiter::WaitMeter samplers_for_items;
  limiter::WaitMeter samplers_for_limiter;

  Counters counters;

 private:
  alignas(base::kCacheLine) const Schema schema_;
  const window::WindowSpec window_;
  const storage::RowLayout layout_;
  const Plan plan_;
  const std::uint32_t tag_;
  Selectors selectors_;
  limiter::Limiter limiter_;
  WriterSlots slots_;
  storage::ChunkStore store_;
  const window::Gather gather_;
  ShardSet shards_;
  base::Life life_;
  const base::Life::WokenByClose wakes_samplers_{life_, items_event};
  const base::Life::WokenByClose wakes_writers_{life_, room_event};
  alignas(base::kCacheLine) std::atomic<std::uint64_t> next_item_{0};
};

}  // namespace reprise::buffer
