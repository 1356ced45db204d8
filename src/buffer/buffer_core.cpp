#include "buffer/buffer_core.hpp"

#include <reprise/strategy_kind.hpp>

#include "base/text.hpp"

#include <algorithm>

namespace reprise::buffer {
namespace {

/// Raises `highest` to the version if `highest` is lower. Returns whether it was raised.
bool raise(std::atomic<std::int64_t>& highest, std::int64_t version) noexcept {
  // Relaxed, here and where the exchange fails: an old number makes the exchange fail.
  std::int64_t before = highest.load(std::memory_order_relaxed);
  while (before < version &&
         !highest.compare_exchange_weak(before, version, std::memory_order_relaxed)) {
  }
  return before < version;
}

}  // namespace
BufferCore::BufferCore(const Schema& schema, const Options& options)
    : format_(schema, options.window),
      plan_(make_plan(options, layout(), window())),
      tag_(plan_.options.key_tag.value_or(0)),
      selectors_(plan_.options.selectors),
      limiter_(plan_.options.rate_limiter, plan_.options.capacity_steps, plan_.options.max_writers),
      slots_(plan_.options.max_writers),
      store_(
          plan_.options.shards * plan_.chunks_per_shard,
          {.rows = plan_.chunk_rows,
           .row_bytes = chunk_layout().stride(),
           .item_numbers = selectors_.need_item_numbers(),
           .state_bytes = layout().state_stride(),
           .frame_bytes = layout().frame_bytes(),
           .last_ref =
               chunk_layout().compressed().empty() ? 0 : chunk_layout().compressed().back().offset,
           .versions = !layout().mutable_fields().empty(),
           .policy_at = layout().version_field()
                            ? chunk_layout().fields()[*layout().version_field()].offset
                            : 0},
          plan_.options.storage),
      gather_(window().make_gather(this->schema(), chunk_layout(), store_)),
      shards_(plan_, window().every_step(), store_, selectors_.rules(), tag_) {}

std::size_t BufferCore::limiter_items() const noexcept {
  const std::size_t items = shards_.items();
  const bool by_item = shards_.may_exhaust() || (limiter_.is_queue() && !window().every_step());
  return items == 0 || by_item ? items : shards_.steps();
}

void BufferCore::set_version(std::int64_t version) noexcept {
  // Relaxed: a save that finds a shard raised has locked the shard after this thread did, so it
  // sees this store.
  raise(counters.version_begun, version);
  const auto newest = static_cast<std::uint64_t>(version);
  if (const auto staleness = options().max_staleness; staleness && *staleness < newest) {
    shards_.raise_oldest(static_cast<std::int64_t>(newest - *staleness));
    room_event.wake_registered();  // E1: items that cannot be drawn make room in a queue.
  }
  // Relaxed: a draw that reads this version takes its locks afterwards, so after the shards above.
  if (raise(counters.version, version)) {
    counters.changed();
  }
}

void BufferCore::check_samples_per_insert(double samples_per_insert) const {
  Options changed = options();
  auto* const ratio = std::get_if<SampleToInsertRatio>(&changed.rate_limiter);
  base::require(ratio != nullptr, base::Call{"set_samples_per_insert"}, "rate_limiter is a ",
                rate_limiters()[changed.rate_limiter.index()].name(),
                "; allowed: SampleToInsertRatio");
  base::require(!(samples_per_insert > ratio->error_buffer),
                base::StrategyOf{"SampleToInsertRatio"}, "samples_per_insert is ",
                samples_per_insert, "; allowed: at most error_buffer = ", ratio->error_buffer);
  ratio->samples_per_insert = samples_per_insert;
  limiter::check_ratio(*ratio);
  check_ratio(changed);
}

void BufferCore::set_samples_per_insert(double samples_per_insert) {
  life_.check_not_forked();
  check_samples_per_insert(samples_per_insert);
  limiter_.set_samples_per_insert(samples_per_insert);
  counters.changed();
  // E1: a lower ratio may let writers go on, a higher one samplers with large batches.
  room_event.wake_registered();
  items_event.wake_registered();
}

std::uint64_t BufferCore::take_episode_ids() noexcept {
  // Relaxed: only the number matters; it publishes no other data.
  return counters.episode_blocks.fetch_add(1, std::memory_order_relaxed) * kEpisodeIdBlock;
}

Stats BufferCore::stats() {
  life_.check_not_forked();
  Stats stats;
  const shard::Counters shards = shards_.totals();
  // D1: acquire; partner: end_truncated. The commits of the dropped steps are seen below.
  const std::uint64_t dropped = counters.dropped_steps.load(std::memory_order_acquire);
  const std::uint64_t ingested = shards.ingested_steps;
  const auto in_shards = static_cast<std::size_t>(ingested - shards.evicted_steps);
  stats.resident_steps = std::min(in_shards, options().capacity_steps);
  stats.excess_steps = in_shards - stats.resident_steps;
  stats.evicted_steps = shards.evicted_steps + dropped;
  // Read after the shards, so that every step they had ingested is counted here.
  stats.committed_steps = slots_.committed();
  // A save that has returned meanwhile may have counted more steps.
  stats.unsaved_steps =
      stats.committed_steps -
      std::min(stats.committed_steps, counters.saved_steps.load(std::memory_order_relaxed));
  stats.pending_steps = stats.committed_steps - ingested - dropped;
  stats.queued_chunks = shards.queued_chunks;
  stats.retired_pinned = shards.retired_pinned;
  stats.items = shards_.items();
  stats.outdated_items = shards_.outdated();
  stats.ever_outdated_items = shards.outdated_items;
  stats.version = static_cast<std::uint64_t>(counters.version.load(std::memory_order_relaxed));

  stats.sampled_items = counters.sampled_items.load(std::memory_order_relaxed);
  stats.sampled_batches = counters.sampled_batches.load(std::memory_order_relaxed);
  stats.guests = counters.guests.load(std::memory_order_relaxed);
  stats.dead_guest_steps = counters.dead_guest_steps.load(std::memory_order_relaxed);
  stats.cut_episodes = counters.cut_episodes.load(std::memory_order_relaxed);
  stats.applied_updates = counters.applied_updates.load(std::memory_order_relaxed);
  stats.stale_updates = counters.stale_updates.load(std::memory_order_relaxed);
  stats.closed_chunks = counters.closed_chunks.load(std::memory_order_relaxed);
  stats.writer_ingests = shards_.writer_ingests.load(std::memory_order_relaxed);
  stats.samples_per_insert =
      stats.committed_steps == 0
          ? 0.0
          : static_cast<double>(stats.sampled_items) / static_cast<double>(stats.committed_steps);

  stats.chunks = store_.chunks();
  stats.chunks_touched = shards.chunks_touched;
  stats.chunk_bytes = store_.chunk_bytes();
  const shard::Memory& memory = shards.indices;
  const std::size_t rows = store_.in_file() ? 0 : stats.chunk_bytes;
  const std::size_t beside_rows = (store_.reserved_columns() + memory.by_row) / stats.chunks;
  const storage::ChunkStore::FrameTotals frames = store_.frame_totals();
  const std::size_t touched_frames = store_.in_file() ? 0 : frames.touched;
  stats.compressed_bytes = frames.compressed;
  stats.uncompressed_bytes = frames.uncompressed;
  stats.file_bytes = store_.disk_bytes();
  stats.reserved_bytes =
      store_.reserved_bytes() + store_.reserved_state_bytes() + memory.by_row + memory.by_chunk;
  stats.touched_bytes = (rows + beside_rows) * stats.chunks_touched + touched_frames +
                        store_.touched_state_bytes() + memory.by_chunk;

  stats.writers = slots_.alive();
  stats.writers_for_chunk = shards_.writers_for_chunk.stats();
  stats.writers_for_limiter = writers_for_limiter.stats();
  stats.samplers_for_items = samplers_for_items.stats();
  stats.samplers_for_limiter = samplers_for_limiter.stats();
  stats.limiter = limiter_.explain(limiter_items());
  return stats;
}

void BufferCore::restore(std::span<const shard::ShardImage> images,
                         std::uint64_t item_numbers) noexcept {
  item_numbers_.restore(item_numbers);
  shards_.restore(images);
}

}  // namespace reprise::buffer
