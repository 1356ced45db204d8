#pragma once

#include "checks/drawn.hpp"
#include "checks/priority_check.hpp"
#include "checks/window_check.hpp"
#include "testing/library.hpp"
#include "threads/shared.hpp"

#include <unordered_set>

namespace stress {

inline constexpr std::chrono::milliseconds kSampleTimeout{10};

/// One life of a learner: it makes a sampler, and draws some batches. One thread.
///
/// Each item is assigned to one learner, which alone updates it and therefore knows its priority.
class Learner {
 public:
  using Code = reprise::SampleStatus::Code;

  /// `number` is the index among the learners. The last learner is the conductor's: it draws only
  /// while all others stand still, and updates the items of all learners.
  Learner(Shared& shared, std::size_t number)
      : shared_(shared),
        options_(shared.options),
        state_(shared.learners[number]),
        learner_(number < options_.learners ? std::optional(number) : std::nullopt),
        rng_(mix(options_.seed ^ mix(number + 1) ^ std::uint64_t{shared.episodes.round()} << 40U ^
                 state_.lives++ << 20U)),
        guest_(shared.is_guest_learner(number)),
        watch_(guest_ ? shared.guests : shared.samplers, WaitWatch::Counted::All),
        sampler_(
            shared.replay.sampler(Shared::sampler_options(rng_.next(), shared.strategies.fresh))),
        windows_({shared.world, shared.episodes, shared.windows}, shared.may_cut, shared.findings),
        priorities_check_(options_, shared.strategies, shared.replay.options().shards,
                          shared.slots_per_shard, shared.findings) {
    if (const std::size_t n = options_.batch; shared.strategies.mixed && n > 1 && !guest_) {
      const std::vector<reprise::MixedPart> halves{{shared.replay, n / 2},
                                                   {shared.replay, n - n / 2}};
      mixed_.emplace(halves, Shared::sampler_options(rng_.next(), 0.0F));
    }
    if (shared.strategies.hindsight) {
      goal_ = static_cast<reprise::HindsightGoal>(rng_.below(3));
      hindsight_ = shared.replay.hindsight(shared.world.name_field(),
                                           {.goal = goal_, .share = 1.0F, .seed = rng_.next()});
    }
  }

  /// Returns false if the buffer was closed, so that the learner gets no further life.
  bool run_life() {
    const Gate::Presence presence(shared_.gate);
    if (guest_) {
      guest_sampler_ = shared_.make_by_guest([&](reprise::Guest& guest) {
        return guest.sampler(Shared::sampler_options(rng_.next(), shared_.strategies.fresh));
      });
      if (!guest_sampler_) {
        return false;
      }
    }
    const std::uint64_t batches = options_.churn ? rng_.between(1, 300) : ~std::uint64_t{0};
    for (std::uint64_t b = 0; b < batches && !shared_.stop.load(std::memory_order_relaxed); ++b) {
      if (shared_.gate.closed()) {
        shared_.gate.park();
      }
      const Code code = cycle();
      if (code == Code::Closed) {
        return false;
      }
      if (code == Code::Ok) {
        set_alpha_when_due();
      }
    }
    return true;
  }

  /// Draws, checks and updates a batch.
  Code cycle() {
    const std::uint64_t since = shared_.arrivals.count();
    const std::int64_t version = shared_.version.load(std::memory_order_acquire);
    const Code code = sample();
    if (code == Code::Closed && !shared_.closing.load(std::memory_order_acquire)) {
      shared_.findings.add(Finding::UnexpectedError, "sample says Closed");
    }
    if (code != Code::Ok) {
      return code;
    }
    const CheckedItems items = windows_.check(*drawn_.batch);
    if (options_.max_staleness) {
      check_versions(items, version);
    }
    keys_.clear();
    priorities_.clear();
    shared_.draw_counts.count(drawn_, items);
    shared_.arrivals.draw(items, since);
    if (drawn_.is_epoch) {
      count_passes(drawn_.passes, since);
    }
    priorities_check_.check(drawn_, items, shared_.priorities, learner_, exponent());
    if (hindsight_) {
      check_goals(items);
    }
    prepare_update(items);
    keys_to_gather_.clear();
    for (std::size_t i = 0; options_.read_by_name && i < items.size(); ++i) {
      if (items[i].correct) {
        keys_to_gather_.push_back({drawn_.keys()[i], items[i].hash});
      }
    }
    update();
    if (options_.mutable_column) {
      replace_latents(items);
    }
    if (options_.remove && learner_) {
      remove();
    }
    if (options_.read_by_name) {
      read_by_name();
    }
    count(state_.batches, 1);
    return Code::Ok;
  }

  /// Checks that an ordered selector gives all items, each once, and that a smaller batch is the
  /// first of them. Call it while all threads stand still and everything is ingested. It skips
  /// buffers with a limit of draws or a limiter that holds writers, where its draws would count.
  void check_whole_order() {
    if (!in_order(shared_.strategies.draw_rule) || options_.exhausts() ||
        shared_.strategies.may_hold_writers()) {
      return;
    }
    const std::vector<reprise::ItemKey> all = first_keys(kWholeOrder);
    const std::vector<reprise::ItemKey> some = first_keys(std::min(options_.batch, all.size()));
    if (!std::equal(some.begin(), some.end(), all.begin())) {
      shared_.findings.add(Finding::WrongOrder, "a batch is not what comes first");
    }
  }

  /// The last batch drawn.
  [[nodiscard]] const Drawn& drawn() const { return drawn_; }
  CheckedItems check() { return windows_.check(*drawn_.batch); }

 private:
  /// The most items that check_whole_order draws.
  static constexpr std::size_t kWholeOrder = std::size_t{1} << 14U;
  static constexpr std::size_t kKept = 512;
  static constexpr std::size_t kBadUpdateOneIn = 64;
  static constexpr std::size_t kRemovedOneIn = 16;

  struct Change {
    std::size_t owner = 0;
    std::uint32_t level = 0;
    bool old = false;  ///< The key is from an earlier batch.
  };

  Code sample() {
    reprise::SampleOptions how{.beta = kBeta, .timeout = kSampleTimeout, .hook = &watch_};
    how.draws = rng_.one_in(2) ? reprise::Draws::Stratified : reprise::Draws::Independent;
    how.normalise = static_cast<reprise::Normalise>(rng_.below(3));
    how.draws = shared_.strategies.draws.value_or(how.draws);
    if (guest_sampler_) {
      return record_draw(guest_sampler_->sample(options_.batch, how), how);
    }
    if (!mixed_) {
      return record_draw(sampler_.sample(options_.batch, how), how);
    }
    if (how.normalise == reprise::Normalise::ByBuffer) {
      how.normalise = reprise::Normalise::Not;  // Exact parts do not allow ByBuffer.
    }
    const reprise::SampleResult result = mixed_->sample(how);
    // A call that gives no batch may have drawn items of the first part, which the mix keeps for
    // the next call. They count now.
    const std::size_t kept = result || mixed_->waits_for() == 0 ? 0 : mixed_->counts()[0];
    const Code code = record_draw(result, how, kept - kept_);
    kept_ = kept;
    drawn_.second_part = mixed_->counts()[0];
    return code;
  }

  /// Records the result of a draw. `more`: items that the call drew besides those of the batch.
  Code record_draw(const reprise::SampleResult& result, const reprise::SampleOptions& how,
                   std::size_t more = 0) {
    watch_.end_wait(result ? 1 : 0);
    count(state_.sampled, (result ? result->size() : 0) + more);
    if (!result) {
      return result.status().code;
    }
    const bool once = how.draws == reprise::Draws::WithoutReplacement;
    drawn_ = {.batch = &*result,
              .normalised_by_batch = how.normalise == reprise::Normalise::ByBatch,
              .without_replacement = once,
              .is_epoch = how.draws == reprise::Draws::Epoch,
              .passes = result.status().passes,
              .fresh = result.status().fresh,
              .is_snapshot = once || in_order(shared_.strategies.draw_rule) ||
                             options_.max_times_sampled != 0};
    return Code::Ok;
  }

  /// Reports completed passes to `arrivals`; `since` is the count of arrivals before the draw.
  void count_passes(std::uint64_t passes, std::uint64_t since) {
    if (passes != passes_) {
      shared_.arrivals.pass_completed(pass_since_);
    }
    pass_since_ = passes != passes_ || pass_since_ == 0 ? since : pass_since_;
    passes_ = passes;
  }

  /// Checks that no item is too old for `version`, which was set before the draw, and sometimes
  /// raises the version. (A mix may keep items that it drew earlier, so their age is not checked.)
  void check_versions(CheckedItems items, std::int64_t version) {
    versions_.clear();
    for (const CheckedItem& item : items) {
      if (item.correct) {
        versions_.push_back(World::version_of(item.name));
      }
    }
    std::ranges::sort(versions_);
    if (versions_.empty()) {
      return;
    }
    const std::int64_t oldest = version - static_cast<std::int64_t>(*options_.max_staleness);
    if (versions_.front() < oldest && !mixed_) {
      shared_.findings.add(Finding::TooOld, "an item of version " +
                                                std::to_string(versions_.front()) + ", of " +
                                                std::to_string(oldest) + " allowed");
    }
    if (learner_ && rng_.one_in(8)) {
      const std::int64_t raised = versions_[versions_.size() / 2];
      shared_.replay.set_version(raised);
      std::int64_t before = shared_.version.load(std::memory_order_relaxed);
      while (before < raised &&
             !shared_.version.compare_exchange_weak(before, raised, std::memory_order_release,
                                                    std::memory_order_relaxed)) {
      }
    }
  }

  /// Changes alpha at times. Only the first learner does, so it knows which exponent is in force.
  void set_alpha_when_due() {
    if (learner_ != std::size_t{0} || options_.set_alpha_every == 0 ||
        state_.batches.load(std::memory_order_relaxed) % options_.set_alpha_every != 0) {
      return;
    }
    const std::size_t other = rng_.below(kAlphas.size());
    shared_.replay.selector().set_alpha(kAlphas[other]);
    shared_.exponent.store(other, std::memory_order_relaxed);
  }

  /// Index of the exponent in force, without a value if another thread may be changing it.
  [[nodiscard]] std::optional<std::size_t> exponent() const {
    const bool other_changes_it = options_.set_alpha_every != 0 && learner_.value_or(0) != 0;
    return other_changes_it ? std::nullopt
                            : std::optional(shared_.exponent.load(std::memory_order_relaxed));
  }

  /// Draws and checks the first items, at most `most`; returns their keys. Updates no priorities.
  std::vector<reprise::ItemKey> first_keys(std::size_t most) {
    const std::size_t n = std::min<std::size_t>(shared_.replay.stats().items, most);
    const reprise::SampleOptions how{.timeout = kSampleTimeout};
    if (n == 0 || record_draw(sampler_.sample(n, how), how) != Code::Ok) {
      return {};
    }
    priorities_check_.check(drawn_, check(), shared_.priorities, learner_, exponent());
    return {drawn_.keys().begin(), drawn_.keys().end()};
  }

  /// Gathers the last batch and as many kept keys, some stale, and checks that each names its item.
  void read_by_name() {
    for (std::size_t i = 0; i < options_.batch && !state_.kept.empty(); ++i) {
      keys_to_gather_.push_back(state_.kept[rng_.below(state_.kept.size())]);
    }
    keys_.clear();
    for (const KeptKey& named : keys_to_gather_) {
      keys_.push_back(named.key);
    }
    const reprise::Batch batch = shared_.replay.gather(keys_);
    const CheckedItems items = windows_.check_gathered(batch);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].correct &&
          (batch.keys()[i] != keys_to_gather_[i].key || items[i].hash != keys_to_gather_[i].hash)) {
        shared_.findings.add(Finding::WrongWindow, describe_key(batch.keys()[i]) + " names " +
                                                       items[i].name.words() +
                                                       ", and was another item's");
      }
    }
  }

  /// Relabels the items with goals. Each goal has to be the observation at the reported distance in
  /// the item's episode. While all other threads stand still no item is gone, so each gets a goal.
  /// A final goal is the observation behind an episode's last step, where no drawn item begins.
  void check_goals(CheckedItems items) {
    const reprise::AnyField field = shared_.world.name_field();
    const std::size_t bytes = shared_.world.bytes(field);
    // Goals begin as the items' own observations, because an item that is gone keeps its goal.
    std::vector<std::byte> goals;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto own = drawn_.batch->now_stacks(field).at(i, 0).last(bytes);
      goals.insert(goals.end(), own.begin(), own.end());
    }
    std::vector<std::int32_t> distances(items.size(), -1);
    hindsight_->relabel(drawn_.keys(), goals, field.dtype(), distances);
    const bool there = !learner_ && !options_.exhausts();
    std::unordered_set<std::uint64_t> steps;
    for (const CheckedItem& item : items) {
      if (there && goal_ == reprise::HindsightGoal::Final && item.correct) {
        steps.insert(item.hash);
      }
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::int32_t distance = distances[i];
      const StepName expected = items[i].name.after(distance);
      const auto goal = std::span<const std::byte>(goals).subspan(i * bytes, bytes);
      if (items[i].correct && (!shared_.world.matches(goal, field, expected) ||
                               (distance < 0 && goal_ != reprise::HindsightGoal::Episode) ||
                               (distance == 0 && there) || steps.contains(expected.hash()))) {
        shared_.findings.add(Finding::WrongWindow, "the goal " + std::to_string(distance) +
                                                       " steps after " + items[i].name.words());
      }
    }
  }

  /// Replaces the mutable column's values in all items that passed the check.
  void replace_latents(CheckedItems items) {
    const reprise::AnyField field = shared_.world.fields().back();
    const std::size_t bytes = shared_.world.bytes(field);
    const std::size_t steps =
        shared_.windows.sequences() != nullptr ? shared_.windows.full_length() : 1;
    std::vector<reprise::ItemKey> keys;
    std::vector<std::byte> latents;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto names = shared_.windows.streams() && items[i].correct
                             ? shared_.world.names_in(*drawn_.batch, i)
                             : std::vector<std::optional<StepName>>();
      for (std::size_t k = 0; k < steps && items[i].correct; ++k) {
        latents.resize(latents.size() + bytes);
        shared_.world.fill(
            std::span(latents).last(bytes), field,
            names.empty() ? items[i].name.after(static_cast<std::int64_t>(k)) : names[k].value(),
            rng_.next());
      }
      if (items[i].correct) {
        keys.push_back(drawn_.keys()[i]);
      }
    }
    const auto result = shared_.replay.update(keys, field, latents);
    if (result.applied + result.stale != keys.size() ||
        (!learner_ && !options_.remove && result.stale != 0)) {
      shared_.findings.add(Finding::AccountingError,
                           "update of a column: " + std::to_string(result.stale) + " stale of " +
                               std::to_string(keys.size()));
    }
  }

  /// Removes some of the items that were just updated. From then on no call may return them.
  void remove() {
    std::vector<reprise::ItemKey> removed;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (rng_.one_in(kRemovedOneIn)) {
        removed.push_back(keys_[i]);
        shared_.priorities[changes_[i].owner].remove(keys_[i]);
      }
    }
    if (removed.empty()) {
      return;
    }
    const auto there = [](std::uint32_t length) { return length != 0; };
    if (shared_.replay.remove(removed) > removed.size() || shared_.replay.remove(removed) != 0 ||
        std::ranges::any_of(shared_.replay.gather(removed).lengths(), there)) {
      shared_.findings.add(Finding::AccountingError, "removed items are still there");
    }
  }

  void prepare_update(CheckedItems items) {
    changes_.clear();
    if (learner_ && !state_.kept.empty()) {
      const std::size_t old = items.size() / (options_.churn ? 2 : 8);
      for (std::size_t i = 0; i < old; ++i) {
        const KeptKey& kept = state_.kept[rng_.below(state_.kept.size())];
        change(kept.key, may_get_zero(kept.hash), {.owner = *learner_, .old = true});
      }
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::size_t owner =
          owner_of(items[i].hash, std::max<std::size_t>(options_.learners, 1));
      if (items[i].correct && (!learner_ || *learner_ == owner)) {
        change(drawn_.keys()[i], may_get_zero(items[i].hash), {.owner = owner});
        keep({drawn_.keys()[i], items[i].hash});
      }
    }
  }

  void change(reprise::ItemKey key, bool zero, Change what) {
    // If writers wait for draws, every item must stay drawable, so none gets priority 0.
    zero = zero && !shared_.strategies.may_hold_writers() && rng_.one_in(4);
    what.level = zero ? 0 : 1 + static_cast<std::uint32_t>(rng_.below(kTopLevel));
    keys_.push_back(key);
    priorities_.push_back(priority_of(what.level));
    changes_.push_back(what);
  }

  /// Keeps the first keys, and later a few in place of kept ones, so that some grow old.
  void keep(const KeptKey& key) {
    if (state_.kept.size() < kKept) {
      state_.kept.push_back(key);
    } else if (rng_.one_in(64)) {
      state_.kept[rng_.below(kKept)] = key;
    }
  }

  reprise::UpdateResult apply(std::span<const reprise::ItemKey> keys,
                              std::span<const float> priorities) {
    return guest_sampler_ ? guest_sampler_->update_priorities(keys, priorities)
           : mixed_       ? mixed_->update_priorities(keys, priorities)
                          : shared_.replay.update_priorities(keys, priorities);
  }

  void update() {
    if (keys_.empty()) {
      return;
    }
    if (rng_.one_in(kBadUpdateOneIn) && !refuses_bad_update()) {
      shared_.findings.add(Finding::MissedRefusal, "an update with a bad key or priority");
    }
    // All draws of exhausted items are counted, so their keys must be stale. More keys may be
    // stale, because another learner may not have counted an item's last draw yet.
    const std::size_t exhausted = shared_.draw_counts.exhausted(keys_);
    const auto result = apply(keys_, priorities_);
    count(state_.applied, result.applied);
    count(state_.stale, result.stale);
    if (guest_sampler_ && shared_.closing.load(std::memory_order_acquire)) {
      return;  // Closing the buffer ended the guest's wait, so the counts are unknown.
    }
    if (result.applied + result.stale != keys_.size()) {
      shared_.findings.add(Finding::AccountingError,
                           "update of " + std::to_string(keys_.size()) +
                               " keys: " + std::to_string(result.applied) + " applied, " +
                               std::to_string(result.stale) + " stale");
    }
    if (result.stale < exhausted || (!learner_ && result.stale != exhausted)) {
      shared_.findings.add(Finding::AccountingError,
                           std::to_string(result.stale) + " keys are stale, of which " +
                               std::to_string(exhausted) + " are exhausted" +
                               (learner_ ? "" : ", though nothing was appended since the draw"));
    }
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      KnownPriorities& known = shared_.priorities[changes_[i].owner];
      changes_[i].old ? known.set_unless_newer(keys_[i], changes_[i].level)
                      : known.set(keys_[i], changes_[i].level);
    }
  }

  /// Whether the buffer refuses an update with one bad priority, or with one key of another buffer.
  bool refuses_bad_update() {
    std::vector<reprise::ItemKey> keys = keys_;
    std::vector<float> priorities = priorities_;
    constexpr float kBad[] = {std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity(), -1.0F};
    if (const std::size_t kind = rng_.below(4); kind < std::size(kBad)) {
      priorities[rng_.below(priorities.size())] = kBad[kind];
    } else {
      reprise::ItemKey& key = keys[rng_.below(keys.size())];
      key = reprise::ItemKey::make(key.slot(), key.generation(), key.tag() + 1);
    }
    try {
      static_cast<void>(apply(keys, priorities));
    } catch (const std::invalid_argument&) {
      return true;
    }
    // A guest whose host is gone may get no refusal, which is no fault.
    return guest_sampler_ && shared_.closing.load(std::memory_order_acquire);
  }

  Shared& shared_;
  const Options& options_;
  LearnerState& state_;
  const std::optional<std::size_t> learner_;
  Rng rng_;
  const bool guest_;
  WaitWatch watch_;
  reprise::Sampler sampler_;
  std::optional<reprise::GuestSampler> guest_sampler_;  ///< Draws if the learner is a guest.
  /// Draws in place of sampler_ if options.mixed. Both parts come from the same buffer.
  std::optional<reprise::MixedSampler> mixed_;
  std::size_t kept_ = 0;  ///< Items drawn for the mix's unfinished batch.
  reprise::HindsightGoal goal_ = reprise::HindsightGoal::Future;
  std::optional<reprise::Hindsight> hindsight_;
  Drawn drawn_;
  WindowCheck windows_;
  PriorityCheck priorities_check_;
  std::vector<reprise::ItemKey> keys_;
  std::vector<float> priorities_;
  std::vector<Change> changes_;
  std::vector<KeptKey> keys_to_gather_;
  std::vector<std::int64_t> versions_;
  std::uint64_t passes_ = 0;      ///< Passes that the sampler has completed.
  std::uint64_t pass_since_ = 0;  ///< Steps that had arrived before the current pass began.
};

}  // namespace stress
