#pragma once

#include "drawn.hpp"
#include "latent.hpp"
#include "priority_check.hpp"
#include "scene.hpp"
#include "window_check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

namespace stress {

/// One life of a learner: a sampler and some batches. One thread.
///
/// Items are shared out among the learners by their identity, so that each knows the priorities of
/// its own: it writes them, and keeps a shadow of what it wrote.
class Learner {
 public:
  /// `number`: its index among the learners. The conductor has the last one; all items are its own,
  /// because it draws only while all others stand still.
  Learner(Scene& scene, std::size_t number)
      : scene_(scene),
        options_(scene.options),
        state_(scene.learners[number]),
        me_(number < options_.learners ? std::optional(number) : std::nullopt),
        random_(options_.seed ^ mix(number + 1) ^ std::uint64_t{scene.world.round()} << 40U ^
                state_.lives++ << 20U),
        learner_(scene.store, random_.next(), scene.strategies.fresh),
        windows_(scene.world, scene.windows, scene.cutting, scene.findings),
        priorities_check_(options_, scene.strategies, scene.store.places_per_shard(),
                          scene.findings) {}

  /// False if the buffer was closed.
  bool live() {
    const Gate::Presence presence(scene_.gate);
    const std::uint64_t batches = options_.churn ? 1 + random_.below(300) : ~std::uint64_t{0};
    for (std::uint64_t b = 0; b < batches && !scene_.stop.load(std::memory_order_relaxed); ++b) {
      if (scene_.gate.closed()) {
        scene_.gate.park();
      }
      const Got got = cycle();
      if (got == Got::Closed) {
        return false;
      }
      if (got == Got::Batch) {
        set_alpha_when_due();
      }
    }
    return true;
  }

  /// Samples, checks and updates.
  Got cycle() {
    const std::uint64_t since = scene_.arrivals.count();
    const Got got = learner_.sample(options_.batch, random_);
    if (got == Got::Closed && !scene_.closing.load(std::memory_order_acquire)) {
      scene_.findings.add(Finding::UnexpectedError, "sample says Closed");
    }
    count(state_.sampled, learner_.counted());
    if (got != Got::Batch) {
      return got;
    }
    const Drawn& drawn = learner_.drawn();
    const std::span<const Judged> judged = windows_.check(drawn);
    keys_.clear();
    priorities_.clear();
    scene_.ledger.count(drawn, judged);
    scene_.arrivals.draw(judged, since);
    if (drawn.of_a_pass) {
      count_passes(drawn.passes, since);
    }
    priorities_check_.check(drawn, judged, scene_.shadows, me_, exponent());
    if (scene_.strategies.hindsight) {
      check_goals(drawn, judged);
    }
    prepare_update(drawn, judged);
    named_.clear();
    for (std::size_t i = 0; options_.read_by_name && i < drawn.size; ++i) {
      if (judged[i].legible) {
        named_.push_back({drawn.keys[i], judged[i].hash});
      }
    }
    update();
    if (options_.mutable_column) {
      replace_latents(drawn, judged);
    }
    if (options_.remove && me_) {
      remove();
    }
    if (options_.read_by_name) {
      read_by_name();
    }
    count(state_.batches, 1);
    return Got::Batch;
  }

  /// Call it while all stand still and everything is ingested: an ordered selector then has all
  /// items, each once, and a batch is the first of them. Items with a limit of draws are left to
  /// the learners.
  void check_whole_order() {
    if (!in_order(scene_.strategies.drawing) || options_.max_times_sampled != 0 ||
        scene_.strategies.hold_writers()) {
      return;
    }
    const std::vector<std::uint64_t> all = first_keys(kWholeOrder);
    const std::vector<std::uint64_t> some = first_keys(std::min(options_.batch, all.size()));
    if (!std::equal(some.begin(), some.end(), all.begin())) {
      scene_.findings.add(Finding::WrongOrder, "a batch is not what comes first");
    }
  }

  /// The last batch, and the identities of its items.
  [[nodiscard]] const Drawn& drawn() const { return learner_.drawn(); }
  std::span<const Judged> judge() { return windows_.check(drawn()); }

 private:
  /// A pass begins during a draw; `since`: the count before this one.
  void count_passes(std::uint64_t passes, std::uint64_t since) {
    if (passes != passes_) {
      scene_.arrivals.passed(pass_since_);
    }
    pass_since_ = passes != passes_ || pass_since_ == 0 ? since : pass_since_;
    passes_ = passes;
  }

  /// Sets another exponent. Only the first learner does, so that it knows which one is in force.
  void set_alpha_when_due() {
    if (me_ != std::size_t{0} || options_.set_alpha_every == 0 ||
        state_.batches.load(std::memory_order_relaxed) % options_.set_alpha_every != 0) {
      return;
    }
    const std::size_t other = random_.below(kAlphas.size());
    scene_.store.set_alpha(kAlphas[other]);
    scene_.exponent.store(other, std::memory_order_relaxed);
  }

  /// The exponent in force, if no other thread can be changing it.
  [[nodiscard]] std::optional<std::size_t> exponent() const {
    if (options_.set_alpha_every != 0 && me_ && *me_ != 0) {
      return std::nullopt;
    }
    return scene_.exponent.load(std::memory_order_relaxed);
  }

  /// The most items that are checked together.
  static constexpr std::size_t kWholeOrder = std::size_t{1} << 14U;
  static constexpr std::size_t kKept = 512;
  static constexpr std::uint64_t kBadUpdateOneIn = 64;
  static constexpr std::uint64_t kRemovedOneIn = 16;

  struct Change {
    std::size_t owner = 0;
    std::uint32_t level = 0;
    bool old = false;  ///< Its key is from an earlier batch.
  };

  /// Draws and checks the first items, at most `most`, and returns their keys. Updates none of
  /// them.
  std::vector<std::uint64_t> first_keys(std::size_t most) {
    if (learner_.sample_first(most) != Got::Batch) {
      return {};
    }
    const Drawn& drawn = learner_.drawn();
    count(state_.sampled, drawn.size);
    priorities_check_.check(drawn, windows_.check(drawn), scene_.shadows, me_, exponent());
    return {drawn.keys.begin(), drawn.keys.end()};
  }

  static void count(std::atomic<std::uint64_t>& counter, std::uint64_t more) {
    counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  /// Reads the items of the last batch by their keys, and as many of those kept, of which some are
  /// gone. They are judged as drawn ones are, and each has to be what was drawn under its key.
  void read_by_name() {
    for (std::size_t i = 0; i < options_.batch && !state_.kept.empty(); ++i) {
      named_.push_back(state_.kept[random_.below(state_.kept.size())]);
    }
    keys_.clear();
    for (const KeptKey& named : named_) {
      keys_.push_back(named.key);
    }
    const Drawn& there = learner_.gather(keys_);
    std::ranges::sort(named_, {}, &KeptKey::key);
    const std::span<const Judged> judged = windows_.check(there);
    for (std::size_t i = 0; i < there.size; ++i) {
      const auto named = std::ranges::lower_bound(named_, there.keys[i], {}, &KeptKey::key);
      if (judged[i].legible &&
          (named == named_.end() || named->key != there.keys[i] || named->hash != judged[i].hash)) {
        scene_.findings.add(Finding::WrongWindow, "key " + std::to_string(there.keys[i]) +
                                                      " names " + words_of(judged[i].id) +
                                                      ", and was another item's");
      }
    }
  }

  /// Each goal is the observation of the item's episode that its distance says. While all others
  /// stand still every item is there, so each gets one, and a final one has no step behind it that
  /// was drawn as well.
  void check_goals(const Drawn& drawn, std::span<const Judged> judged) {
    const Goals& goals = learner_.relabel();
    const bool there = !me_ && options_.max_times_sampled == 0;
    std::unordered_set<std::uint64_t> steps;
    for (const Judged& item : judged) {
      if (there && goals.final && item.legible) {
        steps.insert(item.hash);
      }
    }
    for (std::size_t i = 0; i < drawn.size; ++i) {
      const std::int32_t distance = goals.distances[i];
      Identity expected = judged[i].id;
      expected.position += static_cast<std::uint32_t>(distance);
      const auto goal =
          std::span(goals.values).subspan(i * drawn.observation_bytes, drawn.observation_bytes);
      if (judged[i].legible && (recognise(goal) != expected || (distance < 0 && !goals.backwards) ||
                                (distance == 0 && there) || steps.contains(expected.hash()))) {
        scene_.findings.add(Finding::WrongWindow, "the goal " + std::to_string(distance) +
                                                      " steps after " + words_of(judged[i].id));
      }
    }
  }

  /// Checks the values of the mutable column, and replaces them in all items that are legible.
  void replace_latents(const Drawn& drawn, std::span<const Judged> judged) {
    const std::size_t steps = std::max<std::size_t>(drawn.steps, 1);
    std::vector<std::uint64_t> keys;
    std::vector<std::uint64_t> latents;
    for (std::size_t i = 0; i < drawn.size; ++i) {
      if (!judged[i].legible) {
        continue;
      }
      keys.push_back(drawn.keys[i]);
      Identity step = judged[i].id;
      for (std::size_t k = 0; k < steps; ++k, ++step.position) {
        const auto value = drawn.latents.subspan((i * steps + k) * kLatentWords, kLatentWords);
        if ((drawn.steps == 0 || k < drawn.lengths[i]) && !is_latent(step.hash(), value)) {
          scene_.findings.add(Finding::TornRow, "the mutable column of " + words_of(step));
        }
        latents.resize(latents.size() + kLatentWords);
        render_latent(step.hash(), random_.next(), std::span(latents).last(kLatentWords));
      }
    }
    const auto result = learner_.update_latents(keys, latents);
    if (result.applied + result.stale != keys.size() ||
        (!me_ && !options_.remove && result.stale != 0)) {
      scene_.findings.add(Finding::AccountingError,
                          "update of a column: " + std::to_string(result.stale) + " stale of " +
                              std::to_string(keys.size()));
    }
  }

  /// Removes some of the items that were just updated. They are gone for everybody from then on.
  void remove() {
    removed_.clear();
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (random_.one_in(kRemovedOneIn)) {
        removed_.push_back(keys_[i]);
        scene_.shadows[changes_[i].owner].remove(keys_[i]);
      }
    }
    if (removed_.empty()) {
      return;
    }
    if (learner_.remove(removed_) > removed_.size() || learner_.remove(removed_) != 0 ||
        learner_.gather(removed_).size != 0) {
      scene_.findings.add(Finding::AccountingError, "removed items are still there");
    }
  }

  void prepare_update(const Drawn& drawn, std::span<const Judged> judged) {
    changes_.clear();
    if (me_ && !state_.kept.empty()) {
      const std::size_t old = drawn.size / (options_.churn ? 2 : 8);
      for (std::size_t i = 0; i < old; ++i) {
        const KeptKey& kept = state_.kept[random_.below(state_.kept.size())];
        change(kept.key, may_get_zero(kept.hash), {.owner = *me_, .old = true});
      }
    }
    for (std::size_t i = 0; i < drawn.size; ++i) {
      const std::size_t owner =
          World::owner(judged[i].hash, std::max<std::size_t>(options_.learners, 1));
      if (judged[i].legible && (!me_ || *me_ == owner)) {
        change(drawn.keys[i], may_get_zero(judged[i].hash), {.owner = owner});
        keep(drawn.keys[i], judged[i].hash);
      }
    }
  }

  void change(std::uint64_t key, bool zero, Change what) {
    // If writers wait for draws, every item must stay drawable.
    zero = zero && !scene_.strategies.hold_writers() && random_.one_in(4);
    what.level = zero ? 0 : 1 + static_cast<std::uint32_t>(random_.below(kTopLevel));
    keys_.push_back(key);
    priorities_.push_back(priority_of(what.level));
    changes_.push_back(what);
  }

  /// Keeps a few of all keys, so that some grow old.
  void keep(std::uint64_t key, std::uint64_t hash) {
    if (state_.kept.size() < kKept) {
      state_.kept.push_back({key, hash});
    } else if (random_.one_in(64)) {
      state_.kept[random_.below(kKept)] = {key, hash};
    }
  }

  void update() {
    if (keys_.empty()) {
      return;
    }
    if (random_.one_in(kBadUpdateOneIn) &&
        !learner_.refuses_bad_update(keys_, priorities_, random_)) {
      scene_.findings.add(Finding::MissedRefusal, "an update with a bad key or priority");
    }
    // An item is exhausted if all its draws are counted. There may be more: another learner may
    // still have to count a last draw.
    const std::size_t exhausted = scene_.ledger.exhausted(keys_);
    const auto result = learner_.update(keys_, priorities_);
    count(state_.applied, result.applied);
    count(state_.stale, result.stale);
    if (result.applied + result.stale != keys_.size()) {
      scene_.findings.add(Finding::AccountingError, "update of " + std::to_string(keys_.size()) +
                                                        " keys: " + std::to_string(result.applied) +
                                                        " applied, " +
                                                        std::to_string(result.stale) + " stale");
    }
    if (result.stale < exhausted || (!me_ && result.stale != exhausted)) {
      scene_.findings.add(Finding::AccountingError,
                          std::to_string(result.stale) + " keys are stale, of which " +
                              std::to_string(exhausted) + " are exhausted" +
                              (me_ ? "" : ", though nothing was appended since the draw"));
    }
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      Shadow& shadow = scene_.shadows[changes_[i].owner];
      changes_[i].old ? shadow.set_unless_newer(keys_[i], changes_[i].level)
                      : shadow.set(keys_[i], changes_[i].level);
    }
  }

  Scene& scene_;
  const Options& options_;
  LearnerState& state_;
  const std::optional<std::size_t> me_;
  Random random_;
  RepriseStore::Learner learner_;
  WindowCheck windows_;
  PriorityCheck priorities_check_;
  std::vector<std::uint64_t> keys_;
  std::vector<float> priorities_;
  std::vector<Change> changes_;
  std::vector<KeptKey> named_;
  std::vector<std::uint64_t> removed_;
  std::uint64_t passes_ = 0;      ///< Completed.
  std::uint64_t pass_since_ = 0;  ///< Steps that had arrived before the pass under way began.
};

}  // namespace stress
