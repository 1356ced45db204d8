#include "conformance.hpp"

#include "line.hpp"
#include "sequence_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

namespace reprise::test {
namespace {

constexpr Transitions kOneStep{};

/// Windows of transitions are the model's own; sequences are looked at step by step.
Transitions modelled(const Window& window) {
  const auto* const transitions = std::get_if<Transitions>(&window);
  return transitions != nullptr ? *transitions : kOneStep;
}

}  // namespace

Conformance::Conformance(const NamedSelector& selector, const Remover& remover,
                         const Window& window, const RateLimiter& limiter, std::uint64_t seed,
                         const Storage& storage)
    : rng_(seed),
      drawing_(selector.drawing),
      window_(window),
      writers_(rng_.between(1, 3)),
      options_(random_options(remover, limiter, storage)),
      replay_(world_.schema(),
              [&] {
                Options options = options_;
                options.selectors = {selector.strategy};
                return options;
              }()),
      model_(modelled(window), kRaw, std::numeric_limits<std::size_t>::max()),
      sampler_(replay_.sampler({.seed = seed})),
      actors_(writers_) {}

Options Conformance::random_options(const Remover& remover, const RateLimiter& limiter,
                                    const Storage& storage) {
  Options options;
  options.storage = storage;
  options.capacity_steps = rng_.between(9, 60);
  options.window = window_;
  options.remover = remover;
  options.rate_limiter = limiter;
  options.max_times_sampled = rng_.chance(0.5) ? 0 : static_cast<std::uint32_t>(rng_.between(1, 3));
  options.max_writers = writers_;
  options.shards = rng_.between(1, 3);
  options.chunk_steps = reach() + 2 + rng_.below(12);
  options.key_tag = 3;
  options.episode_index = true;
  return options;
}

std::uint32_t Conformance::reach() const {
  const auto* const sequences = std::get_if<Sequences>(&window_);
  return sequences != nullptr ? sequences->burn_in + sequences->length
                              : std::get<Transitions>(window_).n_step;
}

void Conformance::run(std::size_t calls) {
  for (std::size_t i = 0; i < calls && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "call " << i);
    const std::size_t what = rng_.below(100);
    Actor& actor = actors_[rng_.below(actors_.size())];
    if (what < 66) {
      append(actor);
    } else if (what < 69) {
      leave(actor);
    } else if (what < 71) {
      begin(actor);
    } else if (what < 88) {
      sample();
    } else {
      update();
    }
    look();
  }
  close();
}

// ---- writing ----

std::map<std::uint64_t, std::uint32_t> Conformance::news(const Episode& episode,
                                                         std::optional<End> end,
                                                         bool cut_off) const {
  const bool ended = cut_off || (end && *end != End::Continue);
  std::map<std::uint64_t, std::uint32_t> all;
  if (const auto* const kind = std::get_if<Sequences>(&window_)) {
    Sequences so_far = *kind;
    so_far.end = ended ? kind->end : SequenceEnd::Drop;  // What is whole does not wait for the end.
    all = sequences_of(so_far, episode.steps, cut_off);
  } else {
    const std::uint64_t n = reach();
    for (std::uint64_t p = 0; p < episode.steps && (ended || p + n <= episode.steps); ++p) {
      all[p] = static_cast<std::uint32_t>(std::min(n, episode.steps - p));
    }
  }
  std::erase_if(all, [&](const auto& item) { return items_.contains({episode.id, item.first}); });
  return all;
}

void Conformance::decide(const Episode& episode, std::optional<End> end, bool cut_off,
                         const std::vector<float>& priorities) {
  std::size_t i = 0;
  for (const auto& [position, length] : news(episode, end, cut_off)) {
    items_[{episode.id, position}] = {
        .length = length,
        .terminated = end == End::Terminated && position + length == episode.steps,
        .priority = priorities.empty() ? 1.0F : priorities[i++],
        .order = next_item_number_++,
        .key = {}};
  }
}

void Conformance::begin(Actor& actor) {
  if (!actor.writer) {
    actor.writer.emplace(replay_.writer({.timeout = std::chrono::nanoseconds(0)}));
    ++writers_made_;
  }
  if (actor.episode) {
    model_.truncate(actor.episode->id);
    decide(*actor.episode, std::nullopt, true, {});
  }
  const Frame first = world_.random_frame(rng_);
  actor.writer->begin_episode();
  world_.write_first(*actor.writer, first);
  actor.episode = Episode{actor.writer->episode_id(), 0};
  actor.held.reset();
  model_.begin_episode(actor.episode->id, first);
}

void Conformance::leave(Actor& actor) {
  actor.writer.reset();
  if (actor.episode) {
    model_.truncate(actor.episode->id);
    decide(*actor.episode, std::nullopt, true, {});
  }
  actor.episode.reset();
  actor.held.reset();
}

void Conformance::append(Actor& actor) {
  if (!actor.episode) {
    begin(actor);
  }
  Episode& episode = *actor.episode;
  Held now;
  if (actor.held) {
    now = *actor.held;
  } else {
    constexpr End kEnds[] = {End::Terminated, End::Truncated};
    now = {world_.random_step(rng_),
           world_.random_frame(rng_),
           rng_.chance(0.12) ? kEnds[rng_.below(2)] : End::Continue,
           {}};
    world_.write_step(*actor.writer, now.step, now.next);
    ++episode.steps;
    const std::size_t items = news(episode, now.end, false).size();
    --episode.steps;
    ASSERT_EQ(actor.writer->completing(now.end), items);
    if (rng_.chance(0.6)) {
      now.priorities.resize(items);
      std::ranges::generate(now.priorities, [&] { return random_priority(); });
    }
  }
  const CommitStatus status = actor.writer->commit(now.end, now.priorities);
  if (status == CommitStatus::TimedOut) {
    actor.held = now;
    check_hold();
    return;
  }
  ASSERT_EQ(status, CommitStatus::Committed);
  actor.held.reset();
  ++episode.steps;
  ++committed_;
  model_.commit(episode.id, now.step, now.next, now.end);
  decide(episode, now.end, false, now.priorities);
  if (now.end != End::Continue) {
    actor.episode.reset();
  }
}

/// A writer is held only by a limiter, and then only if a sampler is not held by it too: or both
/// would wait for ever.
void Conformance::check_hold() {
  if (const auto* const queue = std::get_if<Queue>(&options_.rate_limiter)) {
    ASSERT_GE(drawable().size(), queue->size);
  } else {
    ASSERT_TRUE(std::holds_alternative<SampleToInsertRatio>(options_.rate_limiter))
        << "held, though nothing limits writers";
  }
  const SampleResult batch = sampler_.sample(1, kAtOnce);
  ASSERT_FALSE(batch.status().held_by_ratio || batch.status().held_by_queue)
      << "both sides wait: " << batch.status().message();
  if (batch) {
    check_batch(*batch, kAtOnce);
  }
}

// ---- drawing ----

std::vector<ItemId> Conformance::drawable() const {
  std::vector<ItemId> ids;
  for (const auto& [id, item] : items_) {
    if (can_be_drawn(item)) {
      ids.push_back(id);
    }
  }
  std::ranges::sort(ids, {}, [&](const ItemId& id) { return items_.at(id).order; });
  return ids;
}

std::map<ItemId, double> Conformance::weights() const {
  std::map<ItemId, double> weights;
  const std::vector<ItemId> ids = drawable();
  for (const ItemId& id : ids) {
    const float priority = items_.at(id).priority;
    double& weight = weights[id];
    weight = drawing_ == Drawing::ByPriority ? static_cast<double>(priority) : 1.0;
    if (drawing_ == Drawing::ByRank) {
      // Equals share their ranks.
      const auto higher = std::ranges::count_if(
          ids, [&](const ItemId& other) { return items_.at(other).priority > priority; });
      const auto equal = std::ranges::count_if(
          ids, [&](const ItemId& other) { return items_.at(other).priority == priority; });
      double sum = 0.0;
      for (std::ptrdiff_t rank = higher + 1; rank <= higher + equal; ++rank) {
        sum += 1.0 / static_cast<double>(rank);
      }
      weight = sum / static_cast<double>(equal);
    }
  }
  return weights;
}

std::optional<bool> Conformance::expect_batch(std::size_t n, Draws draws) const {
  const std::map<ItemId, double> ids = weights();
  const std::uint64_t most = options_.max_times_sampled;
  const bool each_once = in_order(drawing_) || draws == Draws::WithoutReplacement;
  std::uint64_t left = 0;  // Draws that there can be.
  for (const auto& [id, weight] : ids) {
    if (weight > 0.0) {
      left += each_once ? 1 : most == 0 ? n : most - items_.at(id).draws;
    }
  }
  const std::uint64_t resident = std::min<std::uint64_t>(decided_steps_, options_.capacity_steps);
  // Of sequences steps count, unless they are to be used up.
  const bool steps = std::holds_alternative<Sequences>(window_) && most == 0 && !ids.empty();
  const std::uint64_t counted = steps ? resident : ids.size();
  if (left < n) {
    return false;
  }
  if (drawing_ == Drawing::Unknown) {
    return std::nullopt;
  }
  if (std::holds_alternative<Unlimited>(options_.rate_limiter)) {
    return true;
  }
  if (std::holds_alternative<Queue>(options_.rate_limiter)) {
    return ids.size() >= n;
  }
  if (const auto* const least = std::get_if<MinSize>(&options_.rate_limiter)) {
    return counted >= least->items;
  }
  const auto& ratio = std::get<SampleToInsertRatio>(options_.rate_limiter);
  if (counted < ratio.min_size) {
    return false;
  }
  const auto balance = [&](std::uint64_t inserts) {
    return static_cast<double>(sampled_ + n) -
           ratio.samples_per_insert *
               (static_cast<double>(inserts) - static_cast<double>(ratio.min_size));
  };
  constexpr std::uint64_t kMostBooked = 64;
  if (balance(committed_) <= ratio.error_buffer) {
    return true;
  }
  return balance(committed_ + writers_ * kMostBooked) > ratio.error_buffer ? std::optional(false)
                                                                           : std::nullopt;
}

void Conformance::sample() {
  SampleOptions how = kAtOnce;
  how.draws = static_cast<Draws>(rng_.below(3));
  how.normalise = static_cast<Normalise>(rng_.below(3));
  how.beta = static_cast<float>(rng_.unit());
  const std::size_t n = rng_.between(1, 7);
  const std::optional<bool> expected = expect_batch(n, how.draws);
  const SampleResult batch = sampler_.sample(n, how);
  SCOPED_TRACE(testing::Message() << "batch of " << n << ", draws " << static_cast<int>(how.draws)
                                  << ", " << batch.status().message());
  if (expected) {
    ASSERT_EQ(static_cast<bool>(batch), *expected) << drawable().size() << " items";
  }
  if (batch) {
    ASSERT_EQ(batch->size(), n);
    check_batch(*batch, how);
  } else {
    const bool waits = !std::holds_alternative<Unlimited>(options_.rate_limiter);
    ASSERT_TRUE((waits && batch.status().code == SampleStatus::Code::TimedOut) ||
                batch.status().code == SampleStatus::Code::NothingToDraw);
  }
}

void Conformance::check_batch(const Batch& batch, const SampleOptions& how) {
  std::vector<ItemId> ids;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const ItemId id{batch.episode_ids()[i], batch.positions()[i]};
    SCOPED_TRACE(testing::Message() << "item " << id.episode << ", " << id.position);
    const auto found = items_.find(id);
    ASSERT_NE(found, items_.end()) << "no item begins there";
    ASSERT_FALSE(found->second.gone);
    ASSERT_EQ(batch.keys()[i], *found->second.key);
    ASSERT_NO_FATAL_FAILURE(check_window(batch, i, id, found->second));
    ids.push_back(id);
  }
  if (in_order(drawing_) || how.draws == Draws::WithoutReplacement) {
    ASSERT_EQ(std::set(ids.begin(), ids.end()).size(), ids.size()) << "an item comes twice";
  }
  if (in_order(drawing_)) {
    check_order(ids);
  }
  check_chances(batch, ids, how);
  for (const ItemId& id : ids) {
    Item& item = items_.at(id);
    ++item.draws;
    ASSERT_TRUE(options_.max_times_sampled == 0 || item.draws <= options_.max_times_sampled);
  }
  sampled_ += ids.size();
}

void Conformance::check_window(const Batch& batch, std::size_t i, const ItemId& id,
                               const Item& item) {
  ASSERT_EQ(batch.lengths()[i], item.length);
  const auto* const sequences = std::get_if<Sequences>(&window_);
  if (sequences == nullptr) {
    const ExpectedWindow expected = model_.window(id);
    ASSERT_EQ(world_.now(batch, i), expected.now);
    ASSERT_EQ(world_.next(batch, i), expected.next);
    ASSERT_EQ(world_.step(batch, i), expected.step);
    ASSERT_NEAR(static_cast<double>(world_.returns(batch, i)), expected.returns,
                1e-6 * (1.0 + expected.returns_scale));
    ASSERT_NEAR(static_cast<double>(batch.discounts()[i]), expected.discount, 1e-6);
    return;
  }
  const std::vector<Frame> now = world_.now(batch, i);
  const std::vector<Frame> next = world_.next(batch, i);
  ASSERT_EQ(now.size(), reach());
  for (std::uint32_t k = 0; k < item.length; ++k) {
    const ExpectedWindow expected = model_.window({id.episode, id.position + k});
    ASSERT_EQ(now[k], expected.now[0]) << "step " << k;
    ASSERT_EQ(next[k], expected.next[0]) << "step " << k;
    ASSERT_EQ(world_.step(batch, i * reach() + k), expected.step) << "step " << k;
  }
  for (std::uint32_t k = item.length; sequences->end == SequenceEnd::ZeroPad && k < reach(); ++k) {
    ASSERT_EQ(now[k], Frame());
    ASSERT_EQ(next[k], Frame());
    ASSERT_EQ(world_.step(batch, i * reach() + k), StepData());
  }
  ASSERT_EQ(batch.discounts()[i], item.terminated ? 0.0F : 1.0F);
}

/// What was drawn is exactly what comes first.
void Conformance::check_order(const std::vector<ItemId>& ids) const {
  std::vector<ItemId> expected = drawable();
  if (drawing_ == Drawing::Youngest) {
    std::ranges::reverse(expected);
  }
  if (drawing_ == Drawing::Oldest || drawing_ == Drawing::Youngest) {
    expected.resize(ids.size());
    ASSERT_EQ(ids, expected);
    return;
  }
  // Equal priorities may come in any order.
  const auto priority = [&](const ItemId& id) { return items_.at(id).priority; };
  std::vector<float> priorities;
  std::vector<float> drawn;
  std::ranges::transform(expected, std::back_inserter(priorities), priority);
  std::ranges::transform(ids, std::back_inserter(drawn), priority);
  std::ranges::sort(priorities);
  if (drawing_ == Drawing::Highest) {
    std::ranges::reverse(priorities);
  }
  priorities.resize(ids.size());
  ASSERT_EQ(drawn, priorities);
}

void Conformance::check_chances(const Batch& batch, const std::vector<ItemId>& ids,
                                const SampleOptions& how) {
  const std::map<ItemId, double> all = weights();
  double total = 0.0;
  std::size_t positive = 0;
  for (const auto& [id, weight] : all) {
    total += weight;
    positive += weight > 0.0 ? 1U : 0U;
  }
  const auto n = static_cast<double>(ids.size());
  const bool without = how.draws == Draws::WithoutReplacement;
  double threshold = 0.0;
  // Leaves are floats: whole priorities are exact in them, powers of ranks are rounded.
  const double tolerance = drawing_ == Drawing::ByRank ? 1e-6 : 1e-9;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const double p = batch.probabilities()[i];
    const double w = all.at(ids[i]);
    ASSERT_GT(p, 0.0);
    ASSERT_LE(p, 1.0);
    ASSERT_GT(batch.weights()[i], 0.0F);
    ASSERT_TRUE(std::isfinite(batch.weights()[i]));
    if (how.normalise != Normalise::Not) {
      ASSERT_LE(batch.weights()[i], 1.0F + 1e-6F);
    }
    if (drawing_ == Drawing::Unknown) {
      continue;
    }
    if (in_order(drawing_)) {
      ASSERT_EQ(p, 1.0);
      ASSERT_EQ(batch.weights()[i], 1.0F);
      continue;
    }
    if (without && positive == ids.size()) {
      ASSERT_NEAR(p, 1.0 / n, 1e-12) << "all there are";
    } else if (without && n * p < 0.999) {
      // n * P = 1 - exp(-w * t), t being the same for all. Nearer to 1 too few digits are left.
      const double t = -std::log1p(-n * p) / w;
      threshold = threshold == 0.0 ? t : threshold;
      ASSERT_NEAR(t, threshold, 1e-6 * threshold);
    } else if (!without) {
      ASSERT_NEAR(p, w / total, tolerance * p);
    }
    if (!without && how.normalise == Normalise::Not) {
      const double expected =
          std::pow(static_cast<double>(all.size()) * p, -static_cast<double>(how.beta));
      ASSERT_NEAR(static_cast<double>(batch.weights()[i]), expected, 1e-5 * expected);
    }
  }
}

// ---- updates, and what is left ----

void Conformance::update() {
  std::vector<ItemKey> keys;
  std::vector<float> priorities;
  std::size_t applied = 0;
  for (std::size_t i = rng_.between(1, 6); i-- > 0 && !items_.empty();) {
    auto place = std::next(items_.begin(), static_cast<std::ptrdiff_t>(rng_.below(items_.size())));
    Item& item = place->second;
    if (!item.key) {
      continue;  // It went before it was ever found.
    }
    keys.push_back(*item.key);
    priorities.push_back(random_priority());
    if (can_be_drawn(item)) {
      item.priority = priorities.back();
      ++applied;
    }
  }
  const UpdateResult result = replay_.update_priorities(keys, priorities);
  ASSERT_EQ(result.applied, applied);
  ASSERT_EQ(result.stale, keys.size() - applied);
  applied_ += result.applied;
  stale_ += result.stale;
}

void Conformance::look() {
  std::uint64_t open = 0;
  for (const Actor& actor : actors_) {
    open += actor.episode ? std::min<std::uint64_t>(actor.episode->steps, reach() - 1) : 0;
  }
  decided_steps_ = committed_ - open;
  const std::uint64_t resident = std::min<std::uint64_t>(decided_steps_, options_.capacity_steps);
  ASSERT_EQ(replay_.size(), resident);
  for (auto& [id, item] : items_) {
    if (item.gone) {
      continue;
    }
    const std::optional<ItemKey> key = replay_.find(id.episode, id.position);
    ASSERT_TRUE(!key || !item.key || *key == *item.key) << "a key changed";
    item.gone = !key;
    item.key = key ? key : item.key;
  }
  const Stats stats = replay_.stats();
  ASSERT_EQ(stats.committed_steps, committed_);
  ASSERT_EQ(stats.pending_steps, open);
  ASSERT_EQ(stats.resident_steps, resident);
  ASSERT_EQ(stats.evicted_steps, decided_steps_ - resident);
  ASSERT_EQ(stats.queued_chunks, 0U);
  ASSERT_EQ(stats.items, drawable().size());
  ASSERT_EQ(stats.sampled_items, sampled_);
  ASSERT_EQ(stats.applied_updates, applied_);
  ASSERT_EQ(stats.stale_updates, stale_);
  look_at_order();
}

/// First in, first out is exact for one shard and one writer, which no other follows; but items
/// that will not be drawn any more go before others.
void Conformance::look_at_order() const {
  if (options_.remover.target<Fifo>() == nullptr || options_.max_times_sampled != 0 ||
      options_.shards != 1 || writers_made_ != 1) {
    return;
  }
  std::map<std::uint64_t, bool> gone;
  for (const auto& [id, item] : items_) {
    gone[item.order] = item.gone;
  }
  bool left = false;
  for (const auto& [order, is_gone] : gone) {
    ASSERT_FALSE(left && is_gone) << "item " << order << " is gone before an older one";
    left = !is_gone;
  }
}

void Conformance::close() {
  if (testing::Test::HasFailure()) {
    return;
  }
  replay_.close();
  ASSERT_EQ(sampler_.sample(1, kAtOnce).status().code, SampleStatus::Code::Closed);
  for (Actor& actor : actors_) {
    if (actor.episode && !actor.held) {
      world_.write_step(*actor.writer, world_.random_step(rng_), world_.random_frame(rng_));
    }
    if (actor.episode) {
      ASSERT_EQ(actor.writer->commit(), CommitStatus::Closed);
    }
    actor.writer.reset();
  }
  static_cast<void>(replay_.size());
  const Stats stats = replay_.stats();
  ASSERT_EQ(stats.committed_steps, committed_);
  ASSERT_EQ(stats.resident_steps + stats.evicted_steps + stats.pending_steps, committed_);
  ASSERT_LE(stats.resident_steps, options_.capacity_steps);
}

}  // namespace reprise::test
