#include "conformance.hpp"
#include "testing/test.hpp"

namespace reprise::test {

/// Checks that slot `place` of a batch shows this item, which is in the buffer, with the returns
/// and discounts that `how` asks for.
void Conformance::check_item(const Batch& batch, std::size_t place, const ItemId& id,
                             const SampleOptions& how) const {
  Window window = setting_.window;
  std::visit(
      [&](auto& kind) {
        kind.n_step = how.n_step.value_or(kind.n_step);
        kind.discount = how.discount.value_or(kind.discount);
      },
      window);
  SCOPED_TRACE(testing::Message() << "item " << id.episode << ", " << id.position);
  const auto found = items_.find(id);
  ASSERT_NE(found, items_.end()) << "no item begins there";
  ASSERT_FALSE(found->second.gone);
  ASSERT_EQ(batch.episode_ids()[place], id.episode);
  ASSERT_EQ(batch.positions()[place], id.position);
  ASSERT_EQ(batch.keys()[place], *found->second.key);
  ASSERT_EQ(static_cast<std::uint64_t>(batch.keys_int64()[place]), batch.keys()[place].bits);
  const auto* const transitions = std::get_if<Transitions>(&window);
  const std::uint32_t length = transitions == nullptr
                                   ? found->second.length
                                   : std::min(found->second.length, transitions->n_step);
  ASSERT_EQ(batch.lengths()[place], length);
  const bool terminated = found->second.terminated && length == found->second.length;
  ASSERT_EQ(streams() ? world_.mismatch(batch, place, window, found->second.steps)
                      : world_.mismatch(batch, place, window, terminated),
            "");
}

/// Checks that slot `place`, for which this item was requested, shows the item, or nothing if it
/// has left.
void Conformance::check_place(const Batch& batch, std::size_t place, const ItemId& id) const {
  const auto found = items_.find(id);
  ASSERT_EQ(batch.probabilities()[place], 0.0);
  if (found != items_.end() && !found->second.gone) {
    ASSERT_EQ(batch.weights()[place], 1.0F);
    check_item(batch, place, id, {});
    return;
  }
  ASSERT_EQ(batch.lengths()[place], 0U);
  ASSERT_EQ(batch.weights()[place], 0.0F);
  const std::size_t targets = batch.discounts().size() / batch.size();
  for (std::size_t t = 0; t < targets; ++t) {
    ASSERT_EQ(batch.discounts()[place * targets + t], 0.0F);
  }
  for (std::size_t f = 0; f < world_.schema().fields().size(); ++f) {
    const AnyField field = *world_.schema().find(world_.schema().fields()[f].name);
    const std::span<const std::byte> column = batch.now(field);
    const std::size_t bytes = column.size() / batch.size();
    ASSERT_TRUE(std::ranges::all_of(column.subspan(place * bytes, bytes),
                                    [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

/// Checks the priorities of `keys`, which are those of the items `ids`: NaN if the item cannot be
/// drawn; otherwise, for selectors that go by priority, as they were set. Then checks that the
/// selector's totals are the number of drawable items and, where its unit is known, the sum of
/// their weights.
void Conformance::check_priorities(const std::vector<ItemKey>& keys,
                                   const std::vector<ItemId>& ids) const {
  std::vector<float> priorities(keys.size());
  const std::size_t found = replay_.selector().priorities(keys, priorities);
  std::size_t present = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "item " << ids[i].episode << ", " << ids[i].position);
    const Item& item = items_.at(ids[i]);
    ASSERT_EQ(std::isnan(priorities[i]), !can_be_drawn(item));
    if (!can_be_drawn(item)) {
      continue;
    }
    ++present;
    if (draw_rule_ == DrawRule::ByPriority) {
      ASSERT_NEAR(weight(priorities[i]), weight(item.priority), 1e-6 * weight(item.priority));
    } else if (draw_rule_ == DrawRule::ByRank || draw_rule_ == DrawRule::Highest ||
               draw_rule_ == DrawRule::Lowest) {
      ASSERT_EQ(priorities[i], item.priority);
    }
  }
  ASSERT_EQ(found, present);
  const bool weighs_by_priority =
      draw_rule_ == DrawRule::ByPriority || draw_rule_ == DrawRule::Clipped;
  double sum = 0.0;
  for (const auto& [id, weight] : weights()) {
    sum += weighs_by_priority ? weight : 1.0;
  }
  const SelectorTotals totals = replay_.selector().totals();
  ASSERT_EQ(totals.items, drawable().size());
  // The weights of the other selectors have units of their own.
  if (weighs_by_priority || draw_rule_ == DrawRule::Uniform || in_order(draw_rule_)) {
    ASSERT_NEAR(totals.weight, sum, 1e-6 * sum);
  }
}

void Conformance::gather() {
  std::vector<ItemKey> keys;
  std::vector<ItemId> ids;
  for (std::size_t i = rng_.between(1, 9); i-- > 0 && !items_.empty();) {
    const auto item =
        std::next(items_.begin(), static_cast<std::ptrdiff_t>(rng_.below(items_.size())));
    if (item->second.key) {  // Otherwise the item left before it was found.
      keys.push_back(*item->second.key);
      ids.push_back(item->first);
    }
  }
  if (keys.empty()) {
    return;
  }
  const Batch named = replay_.gather(keys);
  ASSERT_EQ(named.size(), keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(named.keys()[i], keys[i]);
    ASSERT_NO_FATAL_FAILURE(check_place(named, i, ids[i]));
  }
  ASSERT_NO_FATAL_FAILURE(check_priorities(keys, ids));
  ASSERT_NO_FATAL_FAILURE(relabel(keys, ids));
  const std::size_t steps = rng_.between(1, 9);
  const Batch span = replay_.episodes().gather(ids[0].episode, ids[0].position, steps);
  for (std::size_t i = 0; i < steps; ++i) {
    ASSERT_NO_FATAL_FAILURE(check_place(span, i, {ids[0].episode, ids[0].position + i}));
  }
}

/// Checks that relabelling gives each item in the buffer a goal that its episode achieved, at the
/// reported distance, and that a final goal has no later step in the buffer.
void Conformance::relabel(const std::vector<ItemKey>& keys, const std::vector<ItemId>& ids) {
  const auto* const window = std::get_if<Transitions>(&setting_.window);
  if (window == nullptr || window->n_step != 1) {
    return;
  }
  const auto goal = static_cast<HindsightGoal>(rng_.below(3));
  const bool compressed = setting_.fields.compressed && rng_.chance(0.5);
  const AnyField field = *world_.schema().find(compressed ? "frame" : "name");
  Hindsight hindsight =
      replay_.hindsight(field, {.goal = goal, .share = 1.0F, .seed = rng_.next()});
  const std::size_t bytes = world_.schema().fields()[field.index()].bytes;
  const std::vector<std::byte> own(bytes * keys.size(), std::byte{0xA5});
  std::vector<std::byte> goals = own;
  std::vector<std::int32_t> distances(keys.size(), -1);
  const std::size_t relabelled = hindsight.relabel(keys, goals, field.dtype(), distances);
  std::size_t present = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "item " << ids[i].episode << ", " << ids[i].position);
    const auto begin = static_cast<std::ptrdiff_t>(i * bytes);
    const std::vector<std::byte> given(goals.begin() + begin,
                                       goals.begin() + begin + static_cast<std::ptrdiff_t>(bytes));
    if (items_.at(ids[i]).gone) {
      ASSERT_EQ(distances[i], 0);
      ASSERT_TRUE(std::equal(given.begin(), given.end(), own.begin()));
      continue;
    }
    ++present;
    ASSERT_TRUE(distances[i] > 0 || (distances[i] < 0 && goal == HindsightGoal::Episode));
    const std::uint64_t position =
        ids[i].position + static_cast<std::uint64_t>(std::int64_t{distances[i]});
    ASSERT_TRUE(items_.contains({ids[i].episode, position}) ||
                items_.contains({ids[i].episode, position - 1}));
    ASSERT_EQ(given, world_.content(field, World::name_of(ids[i].episode, position)));
    const auto behind = items_.find({ids[i].episode, position});
    ASSERT_TRUE(goal != HindsightGoal::Final || behind == items_.end() || behind->second.gone);
  }
  ASSERT_EQ(relabelled, present);
}

/// Replaces values of a mutable column in items, some of which have left. Buffers of sequences are
/// left out, because their steps may lie in two chunks with different values.
void Conformance::replace() {
  if (!setting_.fields.mutable_columns || !std::holds_alternative<Transitions>(setting_.window)) {
    return;
  }
  const AnyField field = *world_.schema().find(rng_.chance(0.5) ? "latent" : "mark");
  std::vector<ItemKey> keys;
  std::vector<std::byte> values;
  std::size_t present = 0;
  for (std::size_t i = rng_.between(1, 9); i-- > 0 && !items_.empty();) {
    const auto item =
        std::next(items_.begin(), static_cast<std::ptrdiff_t>(rng_.below(items_.size())));
    if (item->second.key) {
      keys.push_back(*item->second.key);
      const std::vector<std::byte> value = world_.rewrite(
          field, World::name_of(item->first.episode, item->first.position), rng_.next());
      values.insert(values.end(), value.begin(), value.end());
      present += item->second.gone ? 0U : 1U;
    }
  }
  const UpdateResult result = replay_.update(keys, field, values);
  ASSERT_EQ(result.applied, present);
  ASSERT_EQ(result.stale, keys.size() - present);
}

void Conformance::reset() {
  const float priority = random_priority();
  replay_.selector().reset(priority);
  for (const ItemId& id : drawable()) {
    items_.at(id).priority = priority;
    highest_seen_ = std::max(highest_seen_, priority);
  }
}

/// Removes items by their keys, some stale or given twice, or a whole episode.
void Conformance::remove() {
  std::vector<ItemKey> keys;
  std::set<ItemId> ids;
  const bool whole = rng_.chance(0.3);
  std::uint64_t episode = 0;
  for (std::size_t i = rng_.between(1, 9); i-- > 0 && !items_.empty();) {
    const auto item =
        std::next(items_.begin(), static_cast<std::ptrdiff_t>(rng_.below(items_.size())));
    episode = item->first.episode;
    if (item->second.key) {
      keys.push_back(*item->second.key);
      ids.insert(item->first);
    }
  }
  if (whole) {
    ids.clear();
    for (const auto& [id, item] : items_) {
      if (id.episode == episode) {
        ids.insert(id);
      }
    }
  }
  std::erase_if(ids, [this](const ItemId& id) { return items_.at(id).gone; });
  const std::size_t removed = whole ? replay_.episodes().remove(episode) : replay_.remove(keys);
  ASSERT_EQ(removed, ids.size());
  for (const ItemId& id : ids) {
    ASSERT_FALSE(replay_.episodes().find(id.episode, id.position))
        << "item " << id.episode << ", " << id.position;
    items_.at(id).gone = items_.at(id).removed = true;
  }
}

/// Clears the buffer; `check_buffer` then checks that exactly the decided steps are gone.
void Conformance::clear() {
  replay_.clear();
  cleared_steps_ = decided_steps_;
  for (const auto& [id, item] : items_) {
    ASSERT_FALSE(replay_.episodes().find(id.episode, id.position))
        << "item " << id.episode << ", " << id.position;
  }
}

}  // namespace reprise::test
