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
      index_(store, first_chunk_, chunks_, extras.episode_index),
      order_(first_chunk_, chunks_),
      limit_(store, order_, budget, first_chunk_, chunks_, extras.max_times_sampled,
             extras.most_partial),
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
    if (limit_.limited()) {
      limit_.enter(chunk, state.ingested, published);
    }
    index_.insert(chunk, state.ingested, published);
    for (std::size_t s = 0; s < selectors_.size(); ++s) {
      selectors_[s]->insert({first, priorities, store_.order(chunk, state.ingested)}, elsewhere[s]);
    }
    if (state.items == 0) {
      // Whatever there was before has been deselected: no item is left behind the new run.
      state.deselected = state.ingested;
      if (items != 0) {
        order_.append(chunk);
        if (limit_.limited()) {
          limit_.join(chunk);
        }
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
  if (limit_.limited()) {
    limit_.place(chunk);
  }
}

void Shard::evict() noexcept {
  while ((limit_.limited() || items_ > share_) && budget_.exceeded()) {
    const auto [chunk, most] = next_victim();
    const std::size_t steps = most == 0 ? 0 : budget_.claim_excess(most);
    if (steps == 0) {
      return;
    }
    deselect(chunk, steps);
  }
}

/// The chunk to evict from, and at most how many of its steps; 0 if it is for other shards to
/// evict: this one has its share at most, or others have exhausted items that go first. Whoever
/// finds the buffer over its capacity asks one shard after the other.
DrawLimit::Victim Shard::next_victim() noexcept {
  if (limit_.limited()) {
    if (const DrawLimit::Victim front = limit_.front(); front.steps != 0) {
      return front;
    }
    if (limit_.others_have_fronts()) {
      return {};
    }
    if (budget_.exhausted() != 0) {
      if (items_ == 0 || !limit_.has_its_part(share_)) {
        return {};
      }
      // A remover may like exhausted items best, so the oldest chunk takes turns with its choice.
      in_turn_ = oldest_next_ ? order_.oldest() : victims_.next(order_);
      return {in_turn_, order_[in_turn_].items};
    }
  }
  if (items_ <= share_) {
    return {};
  }
  const std::uint32_t chunk = victims_.next(order_);
  return {chunk, std::min<std::size_t>(items_ - share_, order_[chunk].items)};
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
  if (limit_.limited()) {
    limit_.leave(chunk, state.deselected, end, passed);
  }
  for (const auto& selector : selectors_) {
    selector->erase(first, end - state.deselected);
  }
  state.deselected = end;
  state.items -= static_cast<std::uint32_t>(passed);
  state.alone -= alone;
  items_ -= passed;
  alone_ -= alone;
  evicted_ += passed;
  if (limit_.limited()) {
    limit_.place(chunk);
  }
  if (state.items == 0) {
    order_.remove(chunk);
    if (chunk == in_turn_) {
      in_turn_ = kNil;
      oldest_next_ = !oldest_next_;
    }
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
  if (limit_.limited()) {
    limit_.retire(chunk);
  }
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
