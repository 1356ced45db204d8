#include "buffer/shard_set.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <thread>

namespace reprise::buffer {
namespace {

/// The most chunks that one call ingests per shard before it goes on with its own work.
constexpr std::size_t kIngestBound = 256;
/// How often a call comes back to shards in which it has left rows to ingest.
constexpr int kIngestRounds = 16;
/// How often a helping writer yields to samplers that wait for the lock.
constexpr int kGiveWay = 4;

/// Waits for a shard's lock. The wait is counted, so that helping writers yield.
void lock(shard::Shard& shard) noexcept REPRISE_UNCHECKED {
  // Relaxed: a hint for `help_one`; a stale count costs or saves a few yields.
  shard.samplers_waiting.fetch_add(1, std::memory_order_relaxed);
  shard.mutex.lock();
  shard.samplers_waiting.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace

ShardSet::ShardSet(const Plan& plan, bool item_every_step, storage::ChunkStore& store, Rules rules,
                   std::uint32_t tag)
    : rules_(rules),
      items_are_steps_(item_every_step && !plan.extras.may_exhaust()),
      draws_per_item_(plan.extras.draws_per_item),
      may_exhaust_(plan.extras.may_exhaust()),
      chunk_rows_(plan.chunk_rows),
      chunks_per_shard_(plan.chunks_per_shard),
      slots_per_shard_(plan.chunks_per_shard * plan.chunk_rows),
      budget_(plan.options.capacity_steps) {
  const std::size_t shards = plan.options.shards;
  const std::size_t capacity = plan.options.capacity_steps;
  // Chunks per shard that hold the capacity while episodes are much longer than windows.
  const auto usual =
      static_cast<std::uint32_t>(std::min<std::size_t>(plan.usual_chunks, plan.chunks_per_shard));
  shards_.reserve(shards);
  for (std::size_t s = 0; s < shards; ++s) {
    const shard::Extent extent{static_cast<std::uint32_t>(s * plan.chunks_per_shard),
                               plan.chunks_per_shard,
                               capacity / shards + (s < capacity % shards ? 1 : 0), usual};
    if (const int error = store.set_aside(extent.first_chunk, usual); error != 0) {
      refuse_disk(plan.options.storage, error, "what capacity_steps usually takes",
                  shards * usual * store.disk_bytes_of_chunk());
    }
    store.expect_full(extent.first_chunk, usual);
    shards_.push_back(std::make_unique<shard::Shard>(store, budget_, rules_, plan.options.remover,
                                                     extent, tag, plan.extras));
    const Lock one(*this, s);
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      one->selector(i).expect_leaves(std::size_t{usual} * chunk_rows_);
    }
  }
}

ShardSet::Lock::Lock(ShardSet& set, std::size_t index) noexcept : set_(set), shard_(set[index]) {
  lock(shard_);
}

ShardSet::Lock::~Lock() {
  shard::LockedShard& shard = shard_.locked();
  shard.publish_hints();
  if (!ingested_) {
    set_.serve_writers(shard);
  }
  shard_.mutex.unlock();
}

bool ShardSet::Lock::ingest() noexcept {
  ingested_ = true;
  (*this)->publish_hints();
  return (*this)->ingest(set_.summarise(), kIngestBound);
}

ShardSet::LockAll::LockAll(ShardSet& set) noexcept : set_(set) {
  for (const auto& shard : set_.shards_) {
    lock(*shard);
  }
}

ShardSet::LockAll::~LockAll() {
  for (std::size_t s = 0; s < size(); ++s) {
    (*this)[s].publish_hints();
  }
  for (std::size_t s = 0; s < size(); ++s) {
    set_.serve_writers((*this)[s]);
    set_[s].mutex.unlock();
  }
}

/// Returns, per selector, the maxima over all shards, from their hints. The caller holds the lock
/// of the shard that will use the maxima, and has published that shard's hints. So no maximum of an
/// old exponent, or from before a decay, enters the shard (see `LockAll`).
ShardSet::Summaries ShardSet::summarise() const noexcept {
  Summaries summaries{};
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    for (const auto& shard : shards_) {
      const SelectorSummary hint = shard->hints().summary(i);
      summaries[i].max = std::max(summaries[i].max, hint.max);
      summaries[i].highest_seen = std::max(summaries[i].highest_seen, hint.highest_seen);
    }
  }
  return summaries;
}

/// Ingests and evicts once if writers wait for a chunk.
void ShardSet::serve_writers(shard::LockedShard& shard) noexcept {
  if (writers_for_chunk.anybody_waiting()) {
    shard.ingest(summarise(), kIngestBound);
    shard.publish_hints();
  }
}

bool ShardSet::ingest_one(std::size_t index) noexcept REPRISE_UNCHECKED {
  shards_[index]->mutex.lock();
  return Lock(*this, index, std::adopt_lock).ingest();
}

/// Evicts down to the capacity: calls evict_in(shard) for one shard after the other while steps
/// have to leave.
template <class EvictIn>
void ShardSet::make_room(const EvictIn& evict_in) noexcept {
  std::size_t before = std::numeric_limits<std::size_t>::max();
  while (budget_.exceeded() && budget_.resident() < before) {
    before = budget_.resident();
    for (std::size_t s = 0; s < size() && budget_.exceeded(); ++s) {
      evict_in(s);
    }
  }
}

void ShardSet::ingest_pending() noexcept {
  // Later rounds serve shards that had to stop until other shards evicted.
  const auto evict_in = [this](std::size_t s) { Lock(*this, s)->evict(); };
  bool more = true;
  for (int round = 0; round < kIngestRounds && more; ++round) {
    more = false;
    for (std::size_t s = 0; s < size(); ++s) {
      more = (shards_[s]->maybe_rung() && ingest_one(s)) || more;
      make_room(evict_in);
    }
  }
}

void ShardSet::drain() noexcept {
  const auto evict_in = [this](std::size_t s) { Lock(*this, s)->evict(); };
  for (std::size_t s = 0; s < size(); ++s) {
    while (ingest_one(s)) {
      make_room(evict_in);  // The shard may have stopped until other shards evict.
    }
  }
  make_room(evict_in);
}

/// Calls `work` with the shard if its lock is free, after yielding to samplers a few times.
template <class Work>
void ShardSet::help_one(std::size_t index, const Work& work) noexcept REPRISE_UNCHECKED {
  shard::Shard& shard = *shards_[index];
  for (int i = 0; i < kGiveWay && shard.samplers_waiting.load(std::memory_order_relaxed) != 0;
       ++i) {
    std::this_thread::yield();
  }
  if (shard.mutex.try_lock()) {
    Lock one(*this, index, std::adopt_lock);
    work(one);
    writer_ingests.fetch_add(1, std::memory_order_relaxed);
  }
}

bool ShardSet::help_ingest(std::size_t index) noexcept {
  bool nothing_left = false;
  help_one(index, [&](Lock& shard) { nothing_left = !shard.ingest(); });
  // Other shards may have to evict for the steps that entered here: see Victims::next.
  make_room([this](std::size_t s) { help_one(s, [](Lock& shard) { shard->evict(); }); });
  // A thread that holds another shard's lock may get no processor for a while. So that no writer
  // waits for that thread, this shard evicts instead, unless exhausted items have to leave first.
  if (budget_.exceeded()) {
    help_one(index, [](Lock& shard) { shard->evict(shard::Others::Busy); });
  }
  return nothing_left;
}

void ShardSet::track_fresh() {
  // Shards are locked one by one, because it does not matter which of the arriving items are fresh.
  for (std::size_t s = 0; s < size(); ++s) {
    Lock(*this, s)->track_fresh();
  }
}

void ShardSet::raise_oldest(std::int64_t version) noexcept {
  for (std::size_t s = 0; s < size(); ++s) {
    Lock(*this, s)->raise_oldest(version);
  }
}

void ShardSet::refresh(std::size_t selector) noexcept {
  SelectorRule& rule = *rules_[selector];
  if (!rule.needs_refresh()) {
    return;
  }
  rule.refresh([this, selector](const std::function<void(ShardSelector&)>& visit) {
    for (std::size_t s = 0; s < size(); ++s) {
      const Lock one(*this, s);
      visit(one->selector(selector));
    }
  });
}

template <class Count>
std::size_t ShardSet::sum(const Count& count) const noexcept {
  std::size_t sum = 0;
  for (const auto& shard : shards_) {
    sum += count(shard->hints());
  }
  return sum;
}

std::size_t ShardSet::items() const noexcept {
  return items_are_steps_ ? budget_.visible_steps()
                          : std::min(sum([](const shard::Hints& hints) { return hints.items(); }),
                                     budget_.capacity());
}

std::size_t ShardSet::chunks_with_steps() const noexcept {
  return sum([](const shard::Hints& hints) { return hints.chunks(); });
}

std::size_t ShardSet::outdated() const noexcept {
  return sum([](const shard::Hints& hints) { return hints.outdated(); });
}

std::size_t ShardSet::draws_left() const noexcept {
  return sum([](const shard::Hints& hints) { return hints.draws_left(); });
}

void ShardSet::restore(std::span<const shard::ShardImage> images) noexcept {
  for (std::size_t s = 0; s < images.size(); ++s) {
    Lock(*this, s)->restore(images[s], summarise());
  }
}

shard::Counters ShardSet::totals() noexcept {
  shard::Counters totals;
  for (std::size_t s = 0; s < size(); ++s) {
    const shard::Counters counters = Lock(*this, s)->counters();
    totals.ingested_steps += counters.ingested_steps;
    totals.evicted_steps += counters.evicted_steps;
    totals.outdated_items += counters.outdated_items;
    totals.queued_chunks += counters.queued_chunks;
    totals.retired_pinned += counters.retired_pinned;
    totals.chunks_touched += counters.chunks_touched;
    totals.indices += counters.indices;
  }
  // The bookkeeping of all chunks, used or not.
  totals.indices.by_chunk +=
      size() * chunks_per_shard_.divisor() * (sizeof(storage::Chunk) + sizeof(shard::ChunkState));
  return totals;
}

}  // namespace reprise::buffer
