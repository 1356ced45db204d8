#include "buffer/buffer_core.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <variant>

namespace reprise::buffer {
namespace {

/// Chunks that one call ingests per shard before it goes on with its own work.
constexpr std::size_t kIngestBound = 256;
/// Times that a helping writer gives way to samplers waiting for the lock.
constexpr int kGiveWay = 4;

Schema checked(const Schema& schema, const Window& window) {
  if (schema.fields().empty()) {
    throw std::invalid_argument("schema has 0 fields; allowed: at least 1");
  }
  if (std::holds_alternative<Transitions>(window)) {
    for (const FieldSpec& field : schema.fields()) {
      if (field.role == Role::RecurrentState) {
        throw std::invalid_argument(
            "field '" + field.name +
            "' is a recurrent state, and window is Transitions; allowed: Sequences, of which each "
            "item has the state of its first step; with Transitions Schema::column, which keeps it "
            "for every step");
      }
    }
  }
  return schema;
}

std::vector<std::unique_ptr<SelectorRule>> made(const std::vector<Selector>& selectors) {
  std::vector<std::unique_ptr<SelectorRule>> rules;
  rules.reserve(selectors.size());
  for (const Selector& selector : selectors) {
    rules.push_back(selector.make_selector_rule());
  }
  return rules;
}

std::vector<select::WeightRule*> weight_rules(
    const std::vector<std::unique_ptr<SelectorRule>>& rules) {
  std::vector<select::WeightRule*> found;
  found.reserve(rules.size());
  for (const auto& rule : rules) {
    found.push_back(dynamic_cast<select::WeightRule*>(rule.get()));
  }
  return found;
}

bool needs_order(const std::vector<std::unique_ptr<SelectorRule>>& rules) {
  return std::any_of(rules.begin(), rules.end(),
                     [](const auto& rule) { return rule->needs_order(); });
}

}  // namespace

BufferCore::BufferCore(const Schema& schema, const Options& options)
    : schema_(checked(schema, options.window)),
      window_(options.window),
      layout_(schema_),
      plan_(make_plan(options, layout_, window_)),
      chunks_per_shard_(plan_.chunks_per_shard),
      slots_per_shard_(plan_.chunks_per_shard * plan_.chunk_rows),
      rules_(made(plan_.options.selectors)),
      weight_rules_(weight_rules(rules_)),
      tag_(plan_.options.key_tag.value_or(0)),
      limiter_(plan_.options.rate_limiter, plan_.options.capacity_steps, plan_.options.max_writers),
      slots_(plan_.options.max_writers),
      store_(plan_.options.shards * plan_.chunks_per_shard, plan_.chunk_rows, layout_.stride(),
             needs_order(rules_), layout_.state_stride(), plan_.options.storage),
      gather_(schema_, layout_, window_, store_.state(0)),
      budget_(plan_.options.capacity_steps) {
  const std::size_t shards = plan_.options.shards;
  const std::size_t capacity = plan_.options.capacity_steps;
  shards_.reserve(shards);
  const shard::Extras extras{plan_.options.max_times_sampled, plan_.options.max_writers,
                             plan_.options.episode_index};
  // What the capacity takes while episodes are much longer than windows.
  const auto usual =
      static_cast<std::uint32_t>(std::min<std::size_t>(plan_.usual_chunks, plan_.chunks_per_shard));
  for (std::size_t s = 0; s < shards; ++s) {
    const shard::Extent extent{static_cast<std::uint32_t>(s * plan_.chunks_per_shard),
                               plan_.chunks_per_shard,
                               capacity / shards + (s < capacity % shards ? 1 : 0), usual};
    if (const int error = store_.set_aside(extent.first_chunk, usual); error != 0) {
      refuse_disk(error, "what capacity_steps usually takes",
                  shards * usual * store_.chunk_bytes());
    }
    store_.expect_full(extent.first_chunk, usual);
    shards_.push_back(std::make_unique<shard::Shard>(store_, budget_, rules_, plan_.options.remover,
                                                     extent, tag_, extras));
    shard::Shard& shard = *shards_.back();
    const base::MutexLock lock(shard.mutex);
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      shard.half(i).expect_leaves(std::size_t{usual} * plan_.chunk_rows);
    }
  }
}

void BufferCore::refuse_disk(int error, const char* what, std::size_t bytes) const {
  throw std::system_error(
      error, std::generic_category(),
      base::text("storage: MappedFile in '", std::get<MappedFile>(options().storage).path.string(),
                 "': disk space for ", what, ", ", bytes, " bytes"));
}

/// Per selector, the extremes over all shards. With a shard's lock in hand: what is of another
/// exponent or from before a decay is not to enter that shard (see AllShards).
BufferCore::Elsewhere BufferCore::summarise() const noexcept {
  Elsewhere summaries{};
  for (std::size_t s = 0; s < rules_.size(); ++s) {
    for (const auto& shard : shards_) {
      const SelectorSummary hint = shard->hint(s);
      summaries[s].max = std::max(summaries[s].max, hint.max);
      summaries[s].highest_seen = std::max(summaries[s].highest_seen, hint.highest_seen);
    }
  }
  return summaries;
}

bool BufferCore::ingest_shard(shard::Shard& shard, std::size_t max_chunks) noexcept {
  const base::MutexLock lock(shard.mutex);
  return shard.ingest(summarise(), max_chunks);
}

void BufferCore::ingest_pending() {
  // Another round only while other shards than those that grew have to evict, and do.
  std::size_t before = 0;
  for (int round = 0; round < 2 || budget_.resident() < before; ++round) {
    before = budget_.resident();
    for (const auto& shard : shards_) {
      if (shard->maybe_rung() || budget_.exceeded()) {
        ingest_shard(*shard, kIngestBound);
      }
    }
    if (!budget_.exceeded()) {
      return;
    }
  }
}

void BufferCore::drain() {
  for (const auto& shard : shards_) {
    while (ingest_shard(*shard, kIngestBound)) {
    }
  }
  if (budget_.exceeded()) {
    ingest_pending();
  }
}

bool BufferCore::help(std::size_t index) noexcept {
  const bool all = help_shard(*shards_[index]);
  // What entered here may have to leave elsewhere: see Shard::next_victim.
  for (std::size_t s = 0; s < shards_.size() && budget_.exceeded(); ++s) {
    help_shard(*shards_[s]);
  }
  return all;
}

bool BufferCore::help_shard(shard::Shard& shard) noexcept {
  for (int i = 0; i < kGiveWay && shard.samplers_waiting.load(std::memory_order_relaxed) != 0;
       ++i) {
    std::this_thread::yield();
  }
  if (!shard.mutex.try_lock()) {
    return false;
  }
  const bool left = shard.ingest(summarise(), kIngestBound);
  shard.mutex.unlock();
  writer_ingests.fetch_add(1, std::memory_order_relaxed);
  return !left;
}

void BufferCore::serve_writers(shard::Shard& shard) noexcept {
  if (writers_for_chunk.anybody_waiting()) {
    shard.ingest(summarise(), kIngestBound);
  }
}

void BufferCore::tend(std::size_t selector) noexcept {
  SelectorRule& rule = *rules_[selector];
  if (!rule.tended()) {
    return;
  }
  rule.tend([this, selector](const std::function<void(ShardSelector&)>& visit) {
    for (const auto& shard : shards_) {
      const shard::SamplerLock lock(*shard);
      visit(shard->half(selector));
      shard->publish_hints();
      serve_writers(*shard);
    }
  });
}

std::size_t BufferCore::windows() const noexcept {
  if (window_.every_step() && options().max_times_sampled == 0) {
    return budget_.settled();
  }
  std::size_t sum = 0;
  for (const auto& shard : shards_) {
    sum += shard->windows();
  }
  return sum;
}

std::size_t BufferCore::draws_left() const noexcept {
  return std::accumulate(
      shards_.begin(), shards_.end(), std::size_t{0},
      [](std::size_t sum, const auto& shard) { return sum + shard->draws_left(); });
}

bool BufferCore::ordered(std::size_t selector) {
  shard::Shard& any = *shards_.front();
  const base::MutexLock lock(any.mutex);
  return any.order_of(selector) != nullptr;
}

std::uint64_t BufferCore::take_episode_ids() noexcept {
  // Relaxed: the number alone matters.
  return next_episode_block.fetch_add(1, std::memory_order_relaxed) * kEpisodeIdBlock;
}

void BufferCore::close() noexcept {
  if (life_.forked()) {
    return;  // Nobody waits in this process.
  }
  // C1: the flag comes first, then the wake (I11): a sleeper whose ticket is older than the wake
  // does not sleep, and one with a later ticket sees the flag (E2).
  life_.close();
  items_event.wake_all();
  room_event.wake_all();
}

Stats BufferCore::stats() {
  life_.check();
  Stats stats;
  std::uint64_t ingested = 0;
  for (const auto& shard : shards_) {
    const base::MutexLock lock(shard->mutex);
    const shard::Counters counters = shard->counters();
    ingested += counters.ingested_items;
    stats.evicted_steps += counters.evicted_items;
    stats.queued_chunks += counters.queued_chunks;
    stats.retired_pinned += counters.retired_pinned;
    stats.chunks_touched += shard->chunks_touched();
  }
  // D1: acquire; partner: end_truncated. The commits of what was dropped are seen below.
  const std::uint64_t dropped = dropped_steps.load(std::memory_order_acquire);
  stats.resident_steps = static_cast<std::size_t>(ingested - stats.evicted_steps);
  stats.evicted_steps += dropped;
  // After the shards: everything that they had ingested has been counted by then.
  stats.committed_steps = slots_.committed();
  stats.pending_steps = stats.committed_steps - ingested - dropped;
  stats.sampled_items = sampled_items.load(std::memory_order_relaxed);
  stats.sampled_batches = sampled_batches.load(std::memory_order_relaxed);
  stats.applied_updates = applied_updates.load(std::memory_order_relaxed);
  stats.stale_updates = stale_updates.load(std::memory_order_relaxed);
  stats.writers = slots_.alive();
  stats.chunks = store_.chunks();
  stats.chunk_bytes = store_.chunk_bytes();
  std::size_t tree_bytes = 0;
  for (const auto& rule : rules_) {
    tree_bytes += shards_.size() * rule->bytes(slots_per_shard_.divisor());
  }
  if (options().max_times_sampled != 0) {
    tree_bytes += shards_.size() * shard::DrawLimit::bytes(slots_per_shard_.divisor());
  }
  if (options().episode_index) {
    tree_bytes += shards_.size() *
                  shard::EpisodeIndex::bytes(chunks_per_shard_.divisor(), store_.chunk_rows());
  }
  // Of every chunk, used or not.
  const std::size_t words =
      stats.chunks * (sizeof(storage::Chunk) + sizeof(shard::ChunkState)) +
      (options().max_times_sampled == 0
           ? 0
           : shards_.size() * shard::DrawLimit::chunk_bytes(chunks_per_shard_.divisor()));
  const std::size_t rows = store_.in_file() ? 0 : stats.chunk_bytes;
  const std::size_t beside_rows = (store_.reserved_columns() + tree_bytes) / stats.chunks;
  stats.file_bytes = store_.disk_bytes();
  stats.reserved_bytes =
      store_.reserved_bytes() + store_.reserved_state_bytes() + tree_bytes + words;
  stats.touched_bytes =
      (rows + beside_rows) * stats.chunks_touched + store_.touched_state_bytes() + words;
  stats.turnovers = turnovers.load(std::memory_order_relaxed);
  stats.writer_ingests = writer_ingests.load(std::memory_order_relaxed);
  stats.writers_for_chunk = writers_for_chunk.stats();
  stats.writers_for_limiter = writers_for_limiter.stats();
  stats.samplers_for_items = samplers_for_items.stats();
  stats.samplers_for_limiter = samplers_for_limiter.stats();
  stats.samples_per_insert =
      stats.committed_steps == 0
          ? 0.0
          : static_cast<double>(stats.sampled_items) / static_cast<double>(stats.committed_steps);
  stats.items = windows();
  stats.limiter = limiter_.explain(counted());
  return stats;
}

void BufferCore::restore(std::span<const shard::ShardImage> images, std::uint64_t orders) {
  next_order_.store(orders, std::memory_order_relaxed);  // Nobody else has the buffer yet.
  for (std::size_t s = 0; s < images.size(); ++s) {
    const base::MutexLock lock(shards_[s]->mutex);
    shards_[s]->restore(images[s], summarise());
  }
}

bool BufferCore::invariants_hold() {
  for (const auto& shard : shards_) {
    const base::MutexLock lock(shard->mutex);
    if (!shard->invariants_hold()) {
      return false;
    }
  }
  return true;
}

}  // namespace reprise::buffer
