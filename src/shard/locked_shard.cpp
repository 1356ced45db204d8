#include "shard/locked_shard.hpp"

#include "base/check.hpp"
#include "select/one_interval.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace reprise::shard {
namespace {

/// How many leaves `update_all` updates at a time.
constexpr std::size_t kLeavesAtATime = 512;

std::uint32_t count(std::span<const float> priorities, float mark) noexcept {
  return static_cast<std::uint32_t>(std::count(priorities.begin(), priorities.end(), mark));
}

}  // namespace

LockedShard::LockedShard(const Shared& shared, std::span<const std::unique_ptr<SelectorRule>> rules,
                         const Remover& remover, const Extent& extent, std::uint32_t tag,
                         const Extras& extras)
    : store_(shared.store),
      budget_(shared.budget),
      pool_(shared.pool),
      bells_(shared.bells),
      hints_(shared.hints),
      first_chunk_(extent.first_chunk),
      budget_index_(budget_.join()),
      tag_(tag),
      queue_(first_chunk_, extent.chunks),
      selection_(store_, rules, std::size_t{extent.chunks} * store_.chunk_rows()),
      removed_(budget_, std::size_t{extent.chunks} * store_.chunk_rows()),
      limit_(store_, queue_, budget_, selection_, first_chunk_, extras.draws_per_item,
             extras.max_partial, extras.may_outdate),
      episodes_(store_, first_chunk_, extent.chunks, extras.episode_index),
      fresh_(store_, queue_, first_chunk_),
      versions_(store_, std::size_t{extent.chunks} * store_.chunk_rows(), extras.may_outdate),
      victims_(remover, {selection_, store_.chunk_rows(), queue_, limit_, budget_, budget_index_},
               extent) {}

bool LockedShard::ingest(std::span<const SelectorSummary> others, std::size_t max_chunks) noexcept {
  const auto bells = [this](std::uint32_t c) -> auto& {
    return store_.chunk(c).bell;
  };
  hints_stale_ = true;
  backlog_.take(bells_, bells);
  // Evicting many steps at once costs less than evicting after each chunk.
  evict();
  const std::size_t slack = budget_.max_excess(store_.chunk_rows());
  for (; max_chunks != 0 && !backlog_.empty() && !budget_.exceeded(slack); --max_chunks) {
    ingest_chunk(backlog_.answer_oldest(bells), others);
    drop_outdated();
    if (budget_.exceeded(slack)) {
      evict();
    }
  }
  evict();
  return !backlog_.empty();
}

void LockedShard::ingest_chunk(const storage::News& news,
                               std::span<const SelectorSummary> others) noexcept {
  const auto [chunk, published, closed, turn] = news;
  ChunkState& state = queue_[chunk];
  REPRISE_ASSERT(published >= state.ingested && published <= store_.chunk_rows());
  REPRISE_ASSERT(!state.closed);
  const std::span<const float> priorities(store_.priorities(chunk) + state.ingested,
                                          published - state.ingested);
  if (!priorities.empty()) {
    const auto steps =
        static_cast<std::uint32_t>(priorities.size()) - count(priorities, storage::kNotAStep);
    const std::uint32_t without_item = count(priorities, storage::kStepWithoutItem);
    const Rows rows{chunk, state.ingested, published, steps, leaf(chunk, state.ingested)};
    notify_indices([&](auto& index) { index.enter(rows, others); });
    if (state.steps == 0) {
      // All earlier steps were deselected; rows without a step may still lie before the new ones.
      state.deselected = state.ingested;
      if (steps != 0) {
        state.turn = turn;
        queue_.append(chunk);
        publish_oldest();
      }
    }
    state.ingested = published;
    state.steps += steps;
    state.steps_without_item += without_item;
    steps_ += steps;
    steps_without_item_ += without_item;
    ingested_ += steps;
    budget_.add(steps);
  }
  state.closed = closed;
  notify_indices([&](auto& index) { index.changed(chunk); });
  if (closed && state.steps == 0) {
    retire(chunk);
  } else if (closed) {
    notify_indices([&](auto& index) { index.filled(chunk); });
  }
}

/// Hides items that have become outdated, until their steps are evicted.
void LockedShard::drop_outdated() noexcept {
  std::array<std::uint32_t, kItemsAtATime>
      leaves;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  while (const std::size_t count = versions_.enabled() ? versions_.find_outdated(leaves) : 0) {
    hints_stale_ = true;
    const auto end = std::remove_if(leaves.begin(), leaves.begin() + count,
                                    [&](std::uint32_t leaf) { return limit_.exhausted(leaf); });
    const std::span<const std::uint32_t> dropped(leaves.begin(), end);
    selection_.drop(dropped);
    limit_.give_up(dropped);
    if (fresh_.enabled()) {
      fresh_.drop(dropped);
    }
    outdated_ += dropped.size();
  }
}

void LockedShard::evict(Others others) noexcept {
  while (budget_.exceeded()) {
    hints_stale_ = true;
    const auto [chunk, most] = victims_.next(steps_, others);
    const std::size_t steps = most == 0 ? 0 : budget_.claim_excess(most);
    if (steps == 0) {
      return;
    }
    deselect(chunk, steps);
  }
}

void LockedShard::publish_oldest() noexcept {
  const std::uint32_t oldest = queue_.oldest();
  budget_.publish_oldest(budget_index_,
                         oldest == storage::kNil ? storage::kNoTurn : queue_[oldest].turn);
}

/// Deselects up to `steps` steps of a chunk, oldest first; returns how many.
std::size_t LockedShard::deselect(std::uint32_t chunk, std::size_t steps) noexcept {
  ChunkState& state = queue_[chunk];
  REPRISE_ASSERT(state.steps != 0);
  std::uint32_t end = state.ingested;
  std::uint32_t without_item = state.steps_without_item;
  const std::size_t leaving = std::min<std::size_t>(steps, state.steps);
  if (leaving < state.steps) {
    const float* const priorities = store_.priorities(chunk);
    std::size_t passed = 0;
    for (end = state.deselected; passed != leaving; ++end) {
      passed += priorities[end] == storage::kNotAStep ? 0U : 1U;
    }
    if (without_item != 0) {
      without_item =
          count({priorities + state.deselected, priorities + end}, storage::kStepWithoutItem);
    }
  }
  const Rows rows{chunk, state.deselected, end, leaving, leaf(chunk, state.deselected)};
  notify_indices([&](auto& index) { index.leave(rows); });
  state.deselected = end;
  state.steps -= static_cast<std::uint32_t>(leaving);
  state.steps_without_item -= without_item;
  steps_ -= leaving;
  steps_without_item_ -= without_item;
  evicted_ += leaving;
  notify_indices([&](auto& index) { index.changed(chunk); });
  if (state.steps == 0) {
    queue_.remove(chunk);
    publish_oldest();
    notify_indices([&](auto& index) { index.emptied(chunk); });
    if (state.closed) {
      retire(chunk);
    }
  }
  return leaving;
}

/// Retires a chunk that is closed and has no steps, so that no writer has the chunk and no new draw
/// can pin it (I2).
void LockedShard::retire(std::uint32_t chunk) noexcept {
  ChunkState& state = queue_[chunk];
  notify_indices([&](auto& index) { index.retire(chunk, state.ingested); });
  const std::uint32_t generation = state.next_generation & ItemKey::kGenerationMask;
  state = ChunkState{};
  state.generation = generation;
  state.next_generation = generation + 1;
  storage::Chunk& shared = store_.chunk(chunk);
  // Relaxed: the next writer of the chunk sees these stores through the free list (F1), and if the
  // last unpin frees the chunk, through that (W1). The next ingester sees them through that
  // writer's bell.
  shared.bell.published.store(0, base::Order::Relaxed);
  shared.bell.turn.set(storage::kNoTurn);
  store_.note_frames(chunk, /*rows=*/0, /*bytes=*/0);
  shared.cursor = 0;
  shared.states = 0;
  if (shared.pins.retire()) {
    pool_.reclaim(chunk);
  }
}

Drawn LockedShard::draw(std::size_t selector, std::span<double> targets,
                        const Slots& slots) noexcept {
  const ShardSelector& own = selection_[selector];
  const double total = own.summary().total;
  if (!(total > 0.0)) {
    return {};
  }
  for (double& target : targets) {
    target *= total;
  }
  own.draw(targets, slots.leaves, slots.weights);
  REPRISE_ASSERT(std::all_of(slots.weights.begin(), slots.weights.end(),
                             [](float weight) { return weight > 0.0F; }));
  REPRISE_ASSERT(select::equal_leaves_are_adjacent(slots.leaves));
  return {slots.size(), fill_slots(slots), total};
}

std::size_t LockedShard::list_items(std::uint32_t first, std::uint32_t count,
                                    ItemKey* keys) const noexcept {
  std::size_t items = 0;
  for (std::uint32_t c = first_chunk_ + first; c < first_chunk_ + first + count; ++c) {
    const ChunkState& state = queue_[c];
    const float* const priorities = store_.priorities(c);
    for (std::uint32_t row = state.deselected; row < state.ingested; ++row) {
      keys[items] = ItemKey::make(first_slot() + leaf(c, row), state.generation_of(row), tag_);
      const bool drawable = storage::is_item(priorities[row]) && !removed_.has(leaf(c, row)) &&
                            !limit_.exhausted(leaf(c, row));
      items += drawable ? 1U : 0U;
    }
  }
  return items;
}

Drawn LockedShard::draw_items(std::size_t selector, const Slots& slots) noexcept {
  const std::span<std::uint32_t> leaves = slots.leaves;
  std::size_t live = 0;
  for (const ItemKey key : slots.keys) {
    leaves[live] = key.slot() - first_slot();
    live += in_selectors(key) ? 1U : 0U;
  }
  live = drop_weightless(selector, leaves.first(live));
  return {live, fill_slots(slots.sub(0, live))};
}

/// Moves the leaves of items with a weight above 0 to the front and returns how many there are;
/// items of weight 0 are never drawn (I4).
std::size_t LockedShard::drop_weightless(std::size_t selector,
                                         std::span<std::uint32_t> leaves) const noexcept {
  const ShardSelector& own = selection_[selector];
  if (own.all_positive(leaves)) {
    return leaves.size();
  }
  const auto weightless = std::ranges::remove_if(leaves, [&](std::uint32_t leaf) {
    return !own.all_positive({&leaf, 1});
  });
  return leaves.size() - weightless.size();
}

Drawn LockedShard::draw_fresh(std::size_t selector, const Slots& slots) noexcept {
  std::size_t items = 0;
  while (items < slots.size()) {
    const std::span<std::uint32_t> rest = slots.leaves.subspan(items, slots.size() - items);
    const std::size_t taken = fresh_.take(rest);
    if (taken == 0) {
      break;
    }
    items += drop_weightless(selector, rest.first(taken));
  }
  hints_stale_ = true;
  return {items, fill_slots(slots.sub(0, items))};
}

std::size_t LockedShard::fill_slots(const Slots& slots) noexcept {
  const auto [keys, places, leaves, pinned, weights, probabilities] = slots;
  std::size_t pins = 0;
  std::uint32_t last = storage::kNil;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint32_t slot = first_slot() + leaves[i];
    const storage::Place place = store_.place(slot);
    places[i] = place;
    const ChunkState& state = queue_[place.chunk];
    REPRISE_ASSERT(place.row >= state.deselected && place.row < state.ingested);
    keys[i] = ItemKey::make(slot, state.generation_of(place.row), tag_);
    // Draws are nearly sorted, so one pin usually serves several consecutive draws from one chunk.
    if (!pinned.empty()) {
      pinned[pins] = place.chunk;
      pins += place.chunk != last ? 1U : 0U;
      last = place.chunk;
    }
  }
  pin(pinned.first(pins));
  hints_stale_ = hints_stale_ || fresh_.enabled();
  notify_indices([&](auto& index) { index.drawn(places.first(keys.size()), leaves); });
  return pins;
}

std::optional<ItemKey> LockedShard::find(std::uint64_t episode, std::uint64_t position) noexcept {
  if (!episodes_.enabled()) {
    return std::nullopt;
  }
  const std::optional<storage::Place> place =
      episodes_.find(episode, position, [this](storage::Place at) { return holds_item(at); });
  return place ? std::optional(key(leaf(place->chunk, place->row))) : std::nullopt;
}

/// Rows that were deselected and rows without an item may be in the sums, as they weigh nothing.
bool LockedShard::add_up(std::size_t selector, std::uint64_t block, EpisodeSums& sums) noexcept {
  return episodes_.for_each_run_of(
      sums.episode, block, [this](std::uint32_t chunk) { return queue_[chunk].ingested; },
      [&](storage::Place first, std::uint64_t position, std::uint32_t rows) {
        const std::uint64_t before = position > sums.position ? 0 : sums.position - position + 1;
        const auto upto = static_cast<std::uint32_t>(std::min<std::uint64_t>(before, rows));
        const std::uint32_t leaf = this->leaf(first.chunk, first.row);
        sums.upto += selection_[selector].sum(leaf, upto);
        sums.after += selection_[selector].sum(leaf + upto, rows - upto);
      });
}

std::optional<storage::Place> LockedShard::find(ItemKey key) const noexcept {
  const storage::Place place = store_.place(key.slot());
  const bool current = key.generation() == queue_[place.chunk].generation_of(place.row);
  return current && holds_item(place) ? std::optional(place) : std::nullopt;
}

float LockedShard::stored(std::size_t selector, ItemKey key) const noexcept {
  const std::uint32_t leaf = key.slot() - first_slot();
  float stored = std::numeric_limits<float>::quiet_NaN();
  if (find(key) && !limit_.exhausted(leaf)) {
    selection_[selector].store({&leaf, 1}, {&stored, 1});
  }
  return stored;
}

std::size_t LockedShard::update(std::size_t selector, std::span<const ItemKey> keys,
                                std::span<float> weights,
                                std::span<std::uint32_t> leaves) noexcept {
  std::size_t live = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    leaves[live] = keys[i].slot() - first_slot();
    weights[live] = weights[i];
    live += in_selectors(keys[i]) ? 1U : 0U;
  }
  ShardSelector& own = selection_[selector];
  // Exhausted and removed items weigh 0. So do rows without an item, which only a key that the
  // buffer never gave can name. So leaves have to be dropped only if one of them weighs 0.
  if (!own.all_positive(leaves.first(live))) {
    live = drop_non_items(leaves.first(live), weights);
  }
  hints_stale_ = true;
  own.update(leaves.first(live), weights.first(live));
  return live;
}

void LockedShard::update_all(std::size_t selector, float weight) noexcept {
  hints_stale_ = true;
  std::array<float, kLeavesAtATime> weights;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  weights.fill(weight);
  std::array<std::uint32_t, kLeavesAtATime>
      leaves;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::size_t count = 0;
  const auto flush = [&] {
    selection_[selector].update(std::span(leaves).first(count), std::span(weights).first(count));
    count = 0;
  };
  for (std::uint32_t c = queue_.oldest(); c != storage::kNil; c = queue_[c].newer) {
    const float* const priorities = store_.priorities(c);
    for (std::uint32_t row = queue_[c].deselected; row < queue_[c].ingested; ++row) {
      leaves[count] = leaf(c, row);
      const bool drawable = storage::is_item(priorities[row]) && !limit_.exhausted(leaves[count]) &&
                            !removed_.has(leaves[count]);
      count += drawable ? 1U : 0U;
      if (count == kLeavesAtATime) {
        flush();
      }
    }
  }
  flush();
}

void LockedShard::clear() noexcept {
  hints_stale_ = true;
  while (queue_.oldest() != storage::kNil) {
    budget_.remove(deselect(queue_.oldest(), queue_[queue_.oldest()].steps));
  }
}

std::size_t LockedShard::remove(std::span<const ItemKey> keys) noexcept {
  const std::size_t before = removed_.size();
  for (const ItemKey key : keys) {
    if (const std::optional<storage::Place> place = find(key)) {
      remove(*place);
    }
  }
  return removed_.size() - before;
}

std::size_t LockedShard::remove_episode(std::uint64_t episode) noexcept {
  const std::size_t before = removed_.size();
  episodes_.for_each_item_of(
      episode, [this](std::uint32_t chunk) { return queue_[chunk].ingested; },
      [this](storage::Place place) {
        if (holds_item(place)) {
          remove(place);
        }
      });
  return removed_.size() - before;
}

/// Hides an item until its step is evicted.
void LockedShard::remove(storage::Place place) noexcept {
  hints_stale_ = true;
  const std::uint32_t item = leaf(place.chunk, place.row);
  const bool exhausted = limit_.exhausted(item);
  notify_indices([&](auto& index) { index.removed(item, exhausted); });
}

/// Moves the leaves of items that can be drawn, with their weights, to the front; returns how many
/// there are.
std::size_t LockedShard::drop_non_items(std::span<std::uint32_t> leaves,
                                        std::span<float> weights) noexcept {
  std::size_t items = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    leaves[items] = leaves[i];
    weights[items] = weights[i];
    const bool drawable = holds_item(place(leaves[i])) && !limit_.exhausted(leaves[i]);
    items += drawable ? 1U : 0U;
  }
  return items;
}

void LockedShard::publish_hints() noexcept {
  if (!hints_stale_) {
    return;
  }
  hints_stale_ = false;
  hints_.items.set(items());
  if (limit_.limited()) {
    hints_.draws_left.set(limit_.draws_left(steps_ - steps_without_item_));
  }
  if (limit_.enabled()) {
    limit_.publish_front();
  }
  hints_.outdated.set(versions_.outdated());
  hints_.fresh.set(fresh_.size());
  for (std::size_t s = 0; s < selection_.size(); ++s) {
    hints_.publish(s, selection_[s].summary());
  }
  hints_.chunks.set(queue_.length());
  hints_.backlog.set(!backlog_.empty());
}

Counters LockedShard::counters() const noexcept {
  Counters counters{.ingested_steps = ingested_,
                    .evicted_steps = evicted_,
                    .outdated_items = outdated_,
                    .chunks_touched = pool_.touched(),
                    .indices = {}};
  notify_indices([&](const auto& index) { counters.indices += index.memory(); });
  // Relaxed throughout: only statistics, of words that other threads may be changing.
  for (std::uint32_t i = 0; i < counters.chunks_touched; ++i) {
    const storage::Chunk& chunk = store_.chunk(first_chunk_ + i);
    counters.retired_pinned += chunk.pins.retired() ? 1U : 0U;
    counters.queued_chunks += chunk.bell.word.load(base::Order::Relaxed) != 0 ? 1U : 0U;
  }
  return counters;
}

}  // namespace reprise::shard
