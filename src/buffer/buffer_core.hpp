#pragma once

#include <reprise/item_key.hpp>
#include <reprise/options.hpp>
#include <reprise/schema.hpp>
#include <reprise/selector.hpp>
#include <reprise/stats.hpp>
#include <reprise/update_result.hpp>

#include "base/divider.hpp"
#include "base/event.hpp"
#include "base/mutex.hpp"
#include "base/random.hpp"
#include "buffer/life.hpp"
#include "buffer/plan.hpp"
#include "buffer/writer_slots.hpp"
#include "checkpoint/manifest.hpp"
#include "limiter/demand.hpp"
#include "limiter/limiter.hpp"
#include "limiter/wait_meter.hpp"
#include "select/weight_rule.hpp"
#include "shard/budget.hpp"
#include "shard/shard.hpp"
#include "storage/chunk_store.hpp"
#include "storage/row_layout.hpp"
#include "window/gather.hpp"
#include "window/window_spec.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace reprise::buffer {

/// Everything that a buffer's writers and samplers share. The only floor that sees several shards:
/// it routes, and it knows who sleeps. Any thread.
class BufferCore {
 public:
  BufferCore(const Schema& schema, const Options& options);

  // Immutable parts.
  [[nodiscard]] const Schema& schema() const noexcept { return schema_; }
  [[nodiscard]] const Options& options() const noexcept { return plan_.options; }
  [[nodiscard]] const window::WindowSpec& window() const noexcept { return window_; }
  [[nodiscard]] const storage::RowLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] const window::Gather& gather() const noexcept { return gather_; }
  [[nodiscard]] std::span<const std::unique_ptr<SelectorRule>> rules() const noexcept {
    return rules_;
  }

  /// Throws `std::system_error`: no disk space for so many bytes more.
  [[noreturn]] void refuse_disk(int error, const char* what, std::size_t bytes) const;

  // Parts that do their own synchronisation.
  [[nodiscard]] storage::ChunkStore& store() noexcept { return store_; }
  [[nodiscard]] const shard::Budget& budget() const noexcept { return budget_; }
  /// Items that can be drawn.
  [[nodiscard]] std::size_t windows() const noexcept;
  /// Draws that they admit, with `max_times_sampled`.
  [[nodiscard]] std::size_t draws_left() const noexcept;
  /// The size that the rate limiter uses: resident steps, 0 while no item begins with any of them;
  /// with `max_times_sampled`, the items that can be drawn.
  [[nodiscard]] std::size_t samplable() const noexcept {
    const std::size_t items = windows();
    return items == 0 || options().max_times_sampled != 0 ? items : budget_.settled();
  }
  /// As `samplable`, but a `Queue` over `Sequences` counts items, not steps.
  [[nodiscard]] std::size_t counted() const noexcept {
    return limiter_.is_queue() && !window_.every_step() ? windows() : samplable();
  }
  [[nodiscard]] limiter::Limiter& limiter() noexcept { return limiter_; }
  [[nodiscard]] WriterSlots& slots() noexcept { return slots_; }

  /// Whether a selector draws in order, not by weight.
  [[nodiscard]] bool ordered(std::size_t selector);

  [[nodiscard]] std::size_t shard_count() const noexcept { return shards_.size(); }
  [[nodiscard]] shard::Shard& shard(std::size_t index) noexcept { return *shards_[index]; }
  [[nodiscard]] shard::Shard& shard_of(std::uint32_t chunk) noexcept {
    return *shards_[chunks_per_shard_.quotient(chunk)];
  }

  /// Chunks per shard that writers may touch freely. Relaxed inside: a guide, not a limit.
  [[nodiscard]] std::size_t usual_chunks() const noexcept {
    return plan_.usual_chunks + slots_.alive() / shards_.size() + 2;
  }

  /// Ingests what is known to be pending, a bounded amount per shard. For samplers and updates.
  void ingest_pending();
  /// Ingests until every doorbell list was seen empty: the last look of a registered sleeper.
  void drain();
  /// A writer makes room: ingests and evicts in one shard if its lock is free, and in the others
  /// if that leaves the buffer over its capacity. Never waits for the lock; gives way to waiting
  /// samplers a few times. True if it left nothing to ingest in that shard.
  bool help(std::size_t index) noexcept;
  /// With a shard's lock in hand: one step for writers that wait for a chunk.
  void serve_writers(shard::Shard& shard) noexcept REPRISE_REQUIRES(shard.mutex);

  /// Before a draw: lets a selector whose weights follow from all shards bring them up to date.
  void tend(std::size_t selector) noexcept;

  UpdateResult update(std::span<const ItemKey> keys, std::span<const float> priorities,
                      std::size_t selector);
  void set_alpha(float alpha, std::size_t selector);
  void decay(float factor, std::size_t selector);
  /// std::invalid_argument for a selector that is not Proportional.
  [[nodiscard]] float checked_alpha(std::size_t selector) const;
  /// Of a `Proportional` selector; below 0 if it is of another kind.
  [[nodiscard]] float alpha(std::size_t selector) const noexcept {
    const select::WeightRule* const rule = weight_rules_[selector];
    return rule != nullptr && rule->weighted() ? rule->alpha() : -1.0F;
  }

  /// By episode and position; std::logic_error if there is no index.
  [[nodiscard]] std::optional<ItemKey> find(std::uint64_t episode, std::uint64_t position);
  UpdateResult update_episode(std::uint64_t episode, std::uint64_t position,
                              std::span<const float> priorities, std::size_t selector);

  void close() noexcept;
  [[nodiscard]] bool closed() const noexcept { return life_.closed(); }
  [[nodiscard]] const Life& life() const noexcept { return life_; }

  [[nodiscard]] std::uint32_t tag() const noexcept { return tag_; }

  /// A block of episode ids for one writer.
  [[nodiscard]] std::uint64_t take_episode_ids() noexcept;
  static constexpr std::uint64_t kEpisodeIdBlock = 1024;

  /// The number of the item that is decided now.
  /// O1: release; partner: orders_taken. Its writer has rung for all that it decided before.
  [[nodiscard]] std::uint64_t take_order() noexcept {
    return next_order_.fetch_add(1, std::memory_order_release);
  }
  /// Numbers taken so far. O1: acquire; partner: take_order. Who ingests everything after this has,
  /// with any item of a lower number, all those that its writer decided before it.
  [[nodiscard]] std::uint64_t orders_taken() const noexcept {
    return next_order_.load(std::memory_order_acquire);
  }

  [[nodiscard]] Stats stats();

  /// For tests: whether every shard's invariants hold.
  [[nodiscard]] bool invariants_hold();

  // Checkpoints.
  base::Mutex save_mutex;  ///< One save at a time.
  /// Whose closed chunks are in this buffer.
  std::optional<checkpoint::ManifestId> base REPRISE_GUARDED_BY(save_mutex);
  std::vector<base::Random::State> samplers;  ///< That were saved; set before anybody has it.
  /// Before anybody has it: what the shards had, and numbers taken before.
  void restore(std::span<const shard::ShardImage> images, std::uint64_t orders);

  // Where threads sleep, and what is counted about it.
  base::Event items_event;  ///< Samplers, for items or inserts.
  base::Event room_event;   ///< Writers, for samples or for room in the queue.
  limiter::Demand demand{items_event};
  limiter::WaitMeter writers_for_chunk;
  limiter::WaitMeter writers_for_limiter;
  limiter::WaitMeter samplers_for_items;
  limiter::WaitMeter samplers_for_limiter;

  // Statistics, relaxed but for the last: they guard nothing. On a line of their own, because
  // every commit reads the members around them.
  alignas(base::kCacheLine) std::atomic<std::uint64_t> sampled_items{0};
  std::atomic<std::uint64_t> sampled_batches{0};
  std::atomic<std::uint64_t> turnovers{0};
  std::atomic<std::uint64_t> writer_ingests{0};
  std::atomic<std::uint64_t> applied_updates{0};
  std::atomic<std::uint64_t> stale_updates{0};
  std::atomic<std::uint64_t> next_episode_block{0};
  /// Steps of writers destroyed while no chunk could be had for their open items: evicted unseen.
  std::atomic<std::uint64_t> dropped_steps{0};

 private:
  using Elsewhere = std::array<SelectorSummary, kMaxSelectors>;
  [[nodiscard]] Elsewhere summarise() const noexcept;
  /// std::invalid_argument for an unknown selector.
  [[nodiscard]] const SelectorRule& rule_of(std::size_t selector) const;
  void check_priorities(std::span<const float> priorities, std::size_t selector) const;
  void need_index() const;
  select::WeightRule& checked_rule(const char* call, std::size_t selector) const;
  bool ingest_shard(shard::Shard& shard, std::size_t max_chunks) noexcept;
  bool help_shard(shard::Shard& shard) noexcept;

  alignas(base::kCacheLine) const Schema schema_;
  const window::WindowSpec window_;
  const storage::RowLayout layout_;
  const Plan plan_;
  const base::Divider chunks_per_shard_;
  const base::Divider slots_per_shard_;
  const std::vector<std::unique_ptr<SelectorRule>> rules_;
  const std::vector<select::WeightRule*> weight_rules_;  ///< The same, where they are; else null.
  const std::uint32_t tag_;
  limiter::Limiter limiter_;
  WriterSlots slots_;
  storage::ChunkStore store_;
  const window::Gather gather_;
  shard::Budget budget_;
  std::vector<std::unique_ptr<shard::Shard>> shards_;
  Life life_;
  alignas(base::kCacheLine) std::atomic<std::uint64_t> next_order_{0};
};

}  // namespace reprise::buffer
