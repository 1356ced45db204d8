#include "shard/shard.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace reprise::shard {
namespace {

std::uint32_t count(std::span<const float> priorities, float mark) noexcept {
  return static_cast<std::uint32_t>(std::count(priorities.begin(), priorities.end(), mark));
}

ChunkFacts::Selectors halves(std::span<const std::unique_ptr<SelectorRule>> rules,
                             std::size_t leaves) {
  ChunkFacts::Selectors selectors;
  selectors.reserve(rules.size());
  for (const auto& rule : rules) {
    selectors.push_back(rule->make_shard_half(leaves));
  }
  return selectors;
}

/// Null for halves without an order.
std::vector<select::OrderedSelector*> ordered(const ChunkFacts::Selectors& selectors) {
  std::vector<select::OrderedSelector*> orders;
  orders.reserve(selectors.size());
  for (const auto& selector : selectors) {
    orders.push_back(dynamic_cast<select::OrderedSelector*>(selector.get()));
  }
  return orders;
}

}  // namespace

using storage::kNil;

Shard::Shard(storage::ChunkStore& store, Budget& budget,
             std::span<const std::unique_ptr<SelectorRule>> rules, const Remover& remover,
             const Extent& extent, std::uint32_t tag, const Extras& extras)
    : store_(store),
      budget_(budget),
      first_chunk_(extent.first_chunk),
      chunks_(extent.chunks),
      share_(extent.share),
      set_aside_(extent.set_aside),
      tag_(tag),
      hints_(rules.size()),
      selectors_(halves(rules, std::size_t{chunks_} * store.chunk_rows())),
      orders_(ordered(selectors_)),
      draw_counts_(std::size_t{chunks_} * store.chunk_rows(), extras.max_draws),
      index_(store, first_chunk_, chunks_, extras.episode_index),
      order_(first_chunk_, chunks_),
      facts_(order_, selectors_, first_chunk_, store.chunk_rows()),
      victims_(remover, facts_, first_chunk_) {
  const base::MutexLock lock(mutex);
  publish_hints();
}

std::uint32_t Shard::take_open() noexcept {
  return open_.pop([this](std::uint32_t c) -> auto& { return store_.chunk(c).link; });
}

std::uint32_t Shard::take_recycled() noexcept {
  const std::uint32_t chunk =
      free_.pop([this](std::uint32_t c) -> auto& { return store_.chunk(c).link; });
  if (chunk != kNil) {
    store_.forget(chunk);
  }
  return chunk;
}

std::uint32_t Shard::take_fresh(int& disk_error) noexcept {
  const auto links = [this](std::uint32_t c) -> auto& {
    return store_.chunk(c).link;
  };
  std::uint32_t chunk = roomless_.pop(links);
  if (chunk == kNil) {
    const std::uint32_t next = fresh_.take(chunks_);
    if (next == kNil) {
      return kNil;
    }
    chunk = first_chunk_ + next;
  }
  const bool roomy = chunk - first_chunk_ < set_aside_;
  if (const int error = roomy ? 0 : store_.set_aside(chunk, 1); error != 0) {
    disk_error = error;
    roomless_.push(chunk, links);
    return kNil;
  }
  return chunk;
}

void Shard::hand_over(std::uint32_t chunk) noexcept {
  open_.push(
      chunk, [this](std::uint32_t c) -> auto& { return store_.chunk(c).link; });
}

bool Shard::ring(std::uint32_t chunk, bool closing) noexcept {
  return bells_.ring(
      chunk, closing ? storage::kRung | storage::kClosed : storage::kRung,
      [this](std::uint32_t c) -> auto& { return store_.chunk(c).bell; });
}

void Shard::unpin(std::span<const std::uint32_t> chunks) noexcept {
  // An atomic operation per chunk costs more than the lock; but nobody waits for the lock here.
  if (mutex.try_lock()) {
    for (const std::uint32_t chunk : chunks) {
      if (store_.chunk(chunk).pins.unpin_locked()) {
        free_chunk(chunk);
      }
    }
    mutex.unlock();
    return;
  }
  for (const std::uint32_t chunk : chunks) {
    if (store_.chunk(chunk).pins.unpin()) {
      free_chunk(chunk);
    }
  }
}

void Shard::free_chunk(std::uint32_t chunk) noexcept {
  store_.chunk(chunk).pins.reset();
  free_.push(
      chunk, [this](std::uint32_t c) -> auto& { return store_.chunk(c).link; });
}

std::uint32_t Shard::chunks_touched() const noexcept {
  return fresh_.taken();
}

bool Shard::ingest(std::span<const SelectorSummary> elsewhere, std::size_t max_chunks) noexcept {
  const auto bells = [this](std::uint32_t c) -> auto& {
    return store_.chunk(c).bell;
  };
  backlog_.take(bells_, bells);
  for (; max_chunks != 0 && !backlog_.empty(); --max_chunks) {
    ingest_chunk(backlog_.answer_oldest(bells), elsewhere);
  }
  evict();
  publish_hints();
  // Relaxed: a hint; whoever must not miss a bell takes the lock.
  has_backlog_.store(!backlog_.empty(), std::memory_order_relaxed);
  return !backlog_.empty();
}

void Shard::ingest_chunk(const storage::News& news,
                         std::span<const SelectorSummary> elsewhere) noexcept {
  const auto [chunk, published, closed] = news;
  ChunkState& state = order_[chunk];
  REPRISE_ASSERT(published >= state.ingested && published <= store_.chunk_rows());
  REPRISE_ASSERT(!state.closed);
  const std::span<const float> priorities(store_.priorities(chunk) + state.ingested,
                                          published - state.ingested);
  if (!priorities.empty()) {
    const auto items =
        static_cast<std::uint32_t>(priorities.size()) - count(priorities, storage::kNotAStep);
    const std::uint32_t alone = count(priorities, storage::kStepAlone);
    const std::uint32_t first = leaf(chunk, state.ingested);
    draw_counts_.clear(first, priorities.size());
    index_.insert(chunk, state.ingested, published);
    for (std::size_t s = 0; s < selectors_.size(); ++s) {
      selectors_[s]->insert({first, priorities, store_.order(chunk, state.ingested)}, elsewhere[s]);
    }
    if (state.items == 0) {
      // Whatever there was before has been deselected: no item is left behind the new run.
      state.deselected = state.ingested;
      if (items != 0) {
        order_.append(chunk);
      }
    }
    state.ingested = published;
    state.items += items;
    state.alone += alone;
    items_ += items;
    alone_ += alone;
    ingested_ += items;
    budget_.add(items);
  }
  state.closed = closed;
  if (closed && state.items == 0) {
    retire(chunk);
  } else if (closed) {
    victims_.filled(chunk);
  }
}

void Shard::evict() noexcept {
  if (items_ <= share_) {
    return;
  }
  std::size_t excess = budget_.claim_excess(items_ - share_);
  while (excess != 0) {
    std::uint32_t victim = victims_.next(order_);
    std::size_t steps = excess;
    if (spent_ != 0 && !victims_.has_remover()) {
      victim = turn_to_spent();
      steps = std::clamp<std::size_t>(spent_in_front(victim), 1, excess);
    }
    excess -= deselect(victim, steps);
  }
}

/// First in, first out goes by a chunk's first item. A slow writer's chunk comes to the end while
/// its youngest items may still be drawn: as long as others were drawn for the last time, it goes
/// round once more. O(1) amortised, because what it is put behind has to go first.
std::uint32_t Shard::turn_to_spent() noexcept {
  const std::uint32_t first = order_.oldest();
  std::uint32_t chunk = first;
  while (spent_in_front(chunk) == 0) {
    order_.remove(chunk);
    order_.append(chunk);
    chunk = order_.oldest();
    if (chunk == first) {
      break;
    }
  }
  return chunk;
}

/// Steps at the front of a chunk that will not be drawn any more.
std::size_t Shard::spent_in_front(std::uint32_t chunk) noexcept {
  const ChunkState& state = order_[chunk];
  const float* const priorities = store_.priorities(chunk);
  std::size_t steps = 0;
  for (std::uint32_t row = state.deselected; row < state.ingested; ++row) {
    if (storage::is_item(priorities[row]) && !draw_counts_.spent(leaf(chunk, row))) {
      break;
    }
    steps += priorities[row] == storage::kNotAStep ? 0U : 1U;
  }
  return steps;
}

/// Deselects up to `items` of a chunk's items, oldest first; returns how many.
std::size_t Shard::deselect(std::uint32_t chunk, std::size_t items) noexcept {
  ChunkState& state = order_[chunk];
  REPRISE_ASSERT(state.items != 0);
  std::uint32_t end = state.ingested;
  std::uint32_t alone = state.alone;
  const std::size_t passed = std::min<std::size_t>(items, state.items);
  if (passed < state.items) {
    const float* const priorities = store_.priorities(chunk);
    std::size_t left = passed;
    for (end = state.deselected; left != 0; ++end) {
      left -= priorities[end] == storage::kNotAStep ? 0 : 1;
    }
    if (alone != 0) {
      alone = count({priorities + state.deselected, priorities + end}, storage::kStepAlone);
    }
  }
  const std::uint32_t first = leaf(chunk, state.deselected);
  spent_ -= draw_counts_.spent(first, end - state.deselected);
  for (const auto& selector : selectors_) {
    selector->erase(first, end - state.deselected);
  }
  state.deselected = end;
  state.items -= static_cast<std::uint32_t>(passed);
  state.alone -= alone;
  items_ -= passed;
  alone_ -= alone;
  evicted_ += passed;
  if (state.items == 0) {
    order_.remove(chunk);
    if (state.closed) {
      victims_.emptied(chunk);
      retire(chunk);
    }
  }
  return passed;
}

/// I2: closed and without items, so no writer has it and no new draw can pin it.
void Shard::retire(std::uint32_t chunk) noexcept {
  ChunkState& state = order_[chunk];
  index_.erase(chunk, state.ingested);
  const std::uint32_t generation = state.next_generation & ItemKey::kGenerationMask;
  state = ChunkState{};
  state.generation = generation;
  state.next_generation = generation + 1;
  storage::Chunk& shared = store_.chunk(chunk);
  // Relaxed: the next writer gets the chunk through the free list (F1) or through the last
  // reader's unpin (W1) before that; the next ingester after that writer's bell.
  shared.bell.published.store(0, base::Order::Relaxed);
  shared.cursor = 0;
  shared.states = 0;
  if (shared.pins.retire()) {
    free_chunk(chunk);
  }
}

}  // namespace reprise::shard
