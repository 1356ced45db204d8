#include "conformance.hpp"

#include "limiter_rule.hpp"
#include "testing/statistics/ranks.hpp"
#include "testing/test.hpp"
#include "window_rule.hpp"

namespace reprise::test {

Conformance::Conformance(const Setting& setting, std::uint64_t seed)
    : setting_(setting),
      draw_rule_(setting.selector.draw_rule),
      rng_(seed),
      world_(setting.fields),
      writer_count_(rng_.between(1, 4)),
      options_(random_options()),
      fresh_share_(in_order(draw_rule_) || options_.max_times_sampled != 0 || rng_.chance(0.5)
                       ? 0.0F
                       : static_cast<float>(rng_.unit())),
      replay_(world_.schema(), options_),
      sampler_(replay_.sampler(
          {.seed = seed, .fresh = fresh_share_, .unique_frames = seed % 2 == 1 && !streams()})),
      actors_(writer_count_) {}

Options Conformance::random_options() {
  Options options;
  options.storage = setting_.storage;
  options.capacity_steps =
      rng_.chance(0.2) ? std::size_t{1} << rng_.between(4, 7) : rng_.between(9, 100);
  options.window = setting_.window;
  if (const auto* const window = std::get_if<Sequences>(&options.window)) {
    options.capacity_steps = std::max<std::size_t>(
        {options.capacity_steps, window->burn_in + window->length, window->period});
  }
  options.selectors = {setting_.selector.strategy};
  options.remover = setting_.remover;
  options.rate_limiter = setting_.limiter;
  const bool limited = rng_.chance(0.5) || std::holds_alternative<Queue>(setting_.limiter);
  options.max_times_sampled = limited ? static_cast<std::uint32_t>(rng_.between(1, 3)) : 0;
  if (setting_.fields.versions && rng_.chance(0.8)) {
    options.max_staleness = rng_.below(5);
  }
  options.max_writers = writer_count_;
  options.shards = rng_.between(1, 4);
  // The fewest rows that this window allows, or some more.
  options.chunk_steps =
      WindowRule(setting_.window).full_length() * (streams() ? 2 : 1) +
      std::visit([](const auto& kind) { return kind.frame_stack; }, setting_.window) +
      (rng_.chance(0.3) ? 0 : rng_.below(20));
  options.key_tag = 3;
  options.episode_index = true;
  return options;
}

void Conformance::run(std::size_t calls) {
  for (std::size_t i = 0; i < calls && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "call " << i);
    const std::size_t what = rng_.below(100);
    Actor& actor = actors_[rng_.below(actors_.size())];
    if (what < 66) {
      append(actor);
    } else if (what < 69) {
      destroy_writer(actor);
    } else if (what < 71) {
      begin(actor);
    } else if (what < 88) {
      sample();
    } else if (what < 94) {
      update();
    } else if (what == 94) {
      rng_.chance(0.5) ? clear() : reset();
    } else if (what < 97) {
      remove();
    } else {
      rng_.chance(0.6) ? gather() : replace();
    }
    if (setting_.fields.versions && rng_.chance(0.05)) {
      check_buffer();
      raise_version();
    }
    check_buffer();
  }
  close();
}

// ---- writing ----

std::map<ItemId, std::uint32_t> Conformance::new_items(const Actor& actor,
                                                       std::optional<End> end) const {
  EpisodeState state = EpisodeState::CutOff;
  if (end) {
    state = *end == End::Continue ? EpisodeState::Open : EpisodeState::Ended;
  }
  const std::size_t steps = actor.steps(streams());
  std::map<ItemId, std::uint32_t> all;
  for (const auto& [position, length] : WindowRule(setting_.window).items(steps, state)) {
    const StepName& name = actor.stream[actor.stream.size() - steps + position].name;
    const ItemId id{name.episode_id, name.position};
    if (!items_.contains(id)) {
      all[id] = length;
    }
  }
  return all;
}

float Conformance::initial_priority() const {
  const Proportional& rule = setting_.selector.weight_rule;
  if (rule.initial == InitialPriority::Constant) {
    return rule.initial_constant;
  }
  const std::vector<ItemId> ids = drawable();
  const bool ever = rule.initial == InitialPriority::HighestSeen;
  const bool any = !(ever ? items_.empty() : ids.empty());
  float highest = ever ? highest_seen_ : 0.0F;
  for (const ItemId& id : ids) {
    highest = std::max(highest, items_.at(id).priority);
  }
  // A highest priority of weight 0 does not count, because nothing would ever be drawn again.
  return any && weight(highest) > 0.0 ? highest : 1.0F;
}

double Conformance::weight(float priority) const {
  const Proportional& rule = setting_.selector.weight_rule;
  const double base = static_cast<double>(priority) + static_cast<double>(rule.epsilon);
  return static_cast<double>(static_cast<float>(std::pow(base, static_cast<double>(rule.alpha))));
}

void Conformance::decide(const Actor& actor, std::optional<End> end,
                         const std::vector<float>& priorities) {
  // All items of a call get the same initial priority, because they enter at the same moment.
  const float initial = initial_priority();
  std::size_t i = 0;
  for (const auto& [id, length] : new_items(actor, end)) {
    const float priority = priorities.empty() ? initial : priorities[i++];
    highest_seen_ = std::max(highest_seen_, priority);
    Item& item = items_[id] = {
        .length = length,
        .terminated = end == End::Terminated && id.position + length == actor.episode->steps,
        .priority = priority,
        .version = World::version_of(World::name_of(id.episode, id.position)),
        .order = next_item_number_++,
        .key = {}};
    newest_version_ = std::max(newest_version_, item.version);
    outdated_count_ += outdated(item) ? 1U : 0U;
    if (streams()) {
      item.steps.assign(actor.stream.end() - std::ptrdiff_t{length}, actor.stream.end());
    }
  }
}

/// Raises the policy's version to a little behind, at, or ahead of the newest version in the
/// buffer. The version never falls.
void Conformance::raise_version() {
  const std::vector<ItemId> before = drawable();
  const std::int64_t version =
      std::max<std::int64_t>(0, newest_version_ + static_cast<std::int64_t>(rng_.below(6)) - 4);
  replay_.set_version(version);
  version_ = std::max(version_, version);
  outdated_count_ += static_cast<std::uint64_t>(
      std::ranges::count_if(before, [&](const ItemId& id) { return outdated(items_.at(id)); }));
}

void Conformance::begin(Actor& actor) {
  if (!actor.writer) {
    actor.writer.emplace(replay_.writer({.timeout = std::chrono::nanoseconds(0)}));
  }
  if (actor.episode) {
    write_step(actor);  // The step is never committed, so no item may show it.
    cut_off(actor);
  }
  world_.begin(*actor.writer);
  actor.episode = Episode{actor.writer->episode_id(), 0};
  actor.held.reset();
}

void Conformance::destroy_writer(Actor& actor) {
  actor.writer.reset();
  if (actor.episode) {
    cut_off(actor);
  }
  actor.episode.reset();
  actor.held.reset();
  actor.stream.clear();
}

void Conformance::write_step(Actor& actor) {
  world_.write_step(*actor.writer);
  const bool may_begin = actor.writer->episode_steps() % item_every(setting_.window) == 0;
  if (setting_.fields.states && (may_begin || rng_.chance(0.5))) {
    world_.write_states(*actor.writer);
  }
}

void Conformance::append(Actor& actor) {
  if (!actor.episode) {
    begin(actor);
  }
  Episode& episode = *actor.episode;
  Held step;
  if (actor.held) {
    step = *actor.held;
  } else {
    constexpr End kEnds[] = {End::Terminated, End::Truncated};
    step.end = rng_.chance(setting_.end_share) ? kEnds[rng_.below(2)] : End::Continue;
    write_step(actor);
    // Counts the step for a moment, to find the items whose windows it completes.
    actor.count(step.end);
    const std::size_t items = new_items(actor, step.end).size();
    --episode.steps;
    actor.stream.pop_back();
    ASSERT_EQ(actor.writer->completing(step.end), items);
    if (rng_.chance(0.6)) {
      step.priorities.resize(items);
      std::ranges::generate(step.priorities, [&] { return random_priority(); });
    }
  }
  const CommitStatus status = actor.writer->commit(step.end, step.priorities);
  if (status == CommitStatus::TimedOut) {
    actor.held = step;
    check_hold();
    return;
  }
  ASSERT_EQ(status, CommitStatus::Committed);
  actor.held.reset();
  actor.count(step.end);
  ++committed_;
  decide(actor, step.end, step.priorities);
  if (step.end != End::Continue) {
    actor.episode.reset();
  }
}

/// Checks that a writer waits only for the limiter, and that no sampler has to wait for the limiter
/// at the same time.
void Conformance::check_hold() {
  if (const auto* const queue = std::get_if<Queue>(&options_.rate_limiter)) {
    ASSERT_GE(drawable().size(), queue->size);
  } else {
    ASSERT_TRUE(std::holds_alternative<SampleToInsertRatio>(options_.rate_limiter))
        << "held, though nothing limits writers";
  }
  const SampleResult batch = sampler_.sample(1, kNoWait);
  ASSERT_FALSE(batch.status().held_by_ratio || batch.status().held_by_queue)
      << "both sides wait: " << batch.status().message();
  if (batch) {
    check_batch(batch, kNoWait);
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
  const std::vector<ItemId> ids = drawable();
  std::vector<float> priorities;
  for (const ItemId& id : ids) {
    priorities.push_back(items_.at(id).priority);
  }
  const bool depends_on_others = draw_rule_ == DrawRule::ByRank || draw_rule_ == DrawRule::Mixed;
  const auto among_others = draw_rule_ == DrawRule::ByRank
                                ? rank_probabilities(priorities, 1.0)
                                : mixed_probabilities(priorities, kMixedUniform);
  std::map<ItemId, double> weights;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    weights[ids[i]] = depends_on_others ? among_others[i] : weight_of(items_.at(ids[i]));
  }
  return weights;
}

std::optional<bool> Conformance::is_batch_expected(std::size_t n, Draws draws) const {
  const std::map<ItemId, double> ids = weights();
  const std::uint64_t most = options_.max_times_sampled;
  const bool each_once = in_order(draw_rule_) || draws == Draws::WithoutReplacement;
  std::uint64_t left = 0;  // Draws that the limit still allows.
  for (const auto& [id, weight] : ids) {
    if (weight > 0.0) {
      left += each_once ? 1 : most == 0 ? n : most - items_.at(id).draws;
    }
  }
  const std::uint64_t resident = replay_.size();
  // For sequences the limiter counts steps, unless a draw limit or staleness uses items up.
  const bool counts_steps = std::holds_alternative<Sequences>(setting_.window) && most == 0 &&
                            !options_.max_staleness && !ids.empty();
  if (left < n) {
    return false;
  }
  if (draw_rule_ == DrawRule::Unknown) {
    return std::nullopt;
  }
  constexpr std::uint64_t kMaxBooked = 64;  // The most inserts that a writer books at once.
  return lets_sample(options_.rate_limiter,
                     {.items = ids.size(),
                      .items_or_steps = counts_steps ? resident : ids.size(),
                      .inserts = committed_,
                      .booked = writer_count_ * kMaxBooked,
                      .samples = sampled_},
                     n);
}

void Conformance::sample() {
  SampleOptions how = kNoWait;
  how.draws = static_cast<Draws>(rng_.below(4));
  how.normalise = static_cast<Normalise>(rng_.below(3));
  how.beta = static_cast<float>(rng_.unit());
  if (const std::uint32_t most =
          std::visit([](auto& kind) { return kind.n_step; }, setting_.window);
      most != 0 && rng_.chance(0.5)) {
    how.n_step = static_cast<std::uint32_t>(rng_.between(1, most));
    how.discount = rng_.chance(0.5) ? std::optional(static_cast<float>(rng_.unit())) : std::nullopt;
  }
  const std::size_t n = rng_.between(1, 7);
  if (refused(how.draws)) {
    ASSERT_THROW((void)sampler_.sample(n, how), std::invalid_argument);
    return;
  }
  const std::optional<bool> expected = is_batch_expected(n, how.draws);
  const SampleResult batch = sampler_.sample(n, how);
  SCOPED_TRACE(testing::Message() << "batch of " << n << ", draws " << static_cast<int>(how.draws)
                                  << ", " << batch.status().message());
  if (expected) {
    ASSERT_EQ(static_cast<bool>(batch), *expected) << drawable().size() << " items";
  }
  if (batch) {
    ASSERT_EQ(batch->size(), n);
    check_batch(batch, how);
    check_passes(batch.status());
  } else {
    const bool waits = !std::holds_alternative<Unlimited>(options_.rate_limiter);
    ASSERT_TRUE((waits && batch.status().code == SampleStatus::Code::TimedOut) ||
                batch.status().code == SampleStatus::Code::NothingToDraw);
    if (batch.status().code == SampleStatus::Code::NothingToDraw) {
      how.draws == Draws::Epoch ? end_pass() : pass_over(weights());
    }
  }
}

void Conformance::check_batch(const SampleResult& result, const SampleOptions& how) {
  const Batch& batch = *result;
  ASSERT_EQ(result.status().version, version_);
  std::vector<ItemId> ids;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const ItemId id{batch.episode_ids()[i], batch.positions()[i]};
    ASSERT_NO_FATAL_FAILURE(check_item(batch, i, id, how));
    ids.push_back(id);
  }
  if (in_order(draw_rule_) || how.draws == Draws::WithoutReplacement) {
    ASSERT_EQ(std::set(ids.begin(), ids.end()).size(), ids.size()) << "an item comes twice";
  }
  if (in_order(draw_rule_)) {
    check_order(ids);
  }
  check_fresh(batch, ids, result.status().fresh);
  how.draws == Draws::Epoch ? check_pass(batch, ids)
                            : check_probabilities(batch, ids, result.status().fresh, how);
  for (const ItemId& id : ids) {
    Item& item = items_.at(id);
    ++item.draws;
    ASSERT_TRUE(options_.max_times_sampled == 0 || item.draws <= options_.max_times_sampled);
  }
  sampled_ += ids.size();
}

void Conformance::check_probabilities(const Batch& batch, const std::vector<ItemId>& ids,
                                      std::size_t fresh, const SampleOptions& how) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(can_be_drawn(items_.at(ids[i])));
    ASSERT_GT(batch.probabilities()[i], 0.0);
    ASSERT_LE(batch.probabilities()[i], 1.0);
    ASSERT_GT(batch.weights()[i], 0.0F);
    ASSERT_TRUE(std::isfinite(batch.weights()[i]));
    if (how.normalise != Normalise::Not) {
      ASSERT_LE(batch.weights()[i], 1.0F + 1e-6F);
    }
    if (in_order(draw_rule_)) {
      ASSERT_EQ(batch.probabilities()[i], 1.0);
      ASSERT_EQ(batch.weights()[i], 1.0F);
    }
  }
  if (draw_rule_ == DrawRule::Unknown || in_order(draw_rule_)) {
    return;
  }
  if (how.draws == Draws::WithoutReplacement) {
    check_probabilities_without_replacement(batch, ids);
  } else {
    check_shares(batch, ids, fresh, how);
  }
}

void Conformance::check_probabilities_without_replacement(const Batch& batch,
                                                          const std::vector<ItemId>& ids) {
  const std::map<ItemId, double> all = weights();
  const auto positive = static_cast<std::size_t>(
      std::ranges::count_if(all, [](const auto& each) { return each.second > 0.0; }));
  const auto n = static_cast<double>(ids.size());
  double threshold = 0.0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const double p = batch.probabilities()[i];
    if (positive == ids.size()) {
      ASSERT_NEAR(p, 1.0 / n, 1e-12) << "all there are";
    } else if (n * p < 0.999) {
      // n * P = 1 - exp(-w * t) with one t for all items. If n * P is close to 1, too few digits
      // are left.
      const double t = -std::log1p(-n * p) / all.at(ids[i]);
      threshold = threshold == 0.0 ? t : threshold;
      ASSERT_NEAR(t, threshold, (1e-6 + 2.0 * tolerance()) * threshold);
    }
  }
}

/// Checks that each item was drawn by its share of all weights, or alike if it was fresh.
void Conformance::check_shares(const Batch& batch, const std::vector<ItemId>& ids,
                               std::size_t fresh, const SampleOptions& how) {
  const std::map<ItemId, double> all = weights();
  const double alike = 1.0 / static_cast<double>(all.size());
  double total = 0.0;
  double min_weight = min_mixture_weight(all);
  for (const auto& [id, weight] : all) {
    total += weight;
    min_weight = weight > 0.0 ? std::min(min_weight, weight) : min_weight;
  }
  min_weight = fresh_share_ > 0.0F ? std::min(min_weight, alike * total) : min_weight;
  const auto importance = [&](double probability) {
    return std::pow(static_cast<double>(all.size()) * probability, -static_cast<double>(how.beta));
  };
  double largest = how.normalise == Normalise::ByBuffer ? importance(min_weight / total) : 1.0;
  if (how.normalise == Normalise::ByBatch) {
    largest = importance(*std::ranges::min_element(batch.probabilities()));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const double p = batch.probabilities()[i];
    ASSERT_NEAR(p, i < fresh ? alike : all.at(ids[i]) / total, tolerance() * p);
    const double expected = importance(p) / largest;
    ASSERT_NEAR(static_cast<double>(batch.weights()[i]), expected,
                (2e-6 + 2.0 * tolerance()) * expected);
  }
}

}  // namespace reprise::test
