#pragma once

#include "checks/window_check.hpp"
#include "testing/library.hpp"
#include "threads/learner.hpp"
#include "threads/shared.hpp"

#include <unordered_map>
#include <unordered_set>

namespace stress {

/// Saves a buffer while it is used, and while all threads stand still. Each checkpoint is loaded
/// into another buffer, whose items are checked, and if all threads stand still also their
/// priorities.
///
/// One thread calls `save_repeatedly`, another one `check_quiescent`.
class Checkpoints {
 public:
  explicit Checkpoints(Shared& shared)
      : shared_(shared), findings_(shared.findings), load_options_(options_of(shared.options)) {}

  /// Saves and loads every second (or every 50 ms with churn) until the run ends.
  void save_repeatedly() {
    while (wait()) {
      try {
        save_under_load();
      } catch (const std::exception& error) {
        findings_.add(Finding::BrokenCheckpoint, error.what());
        return;
      }
    }
  }

  /// Call it while all threads stand still and everything is ingested. `code` is the status of the
  /// conductor's last batch.
  void check_quiescent(Learner& conductor, Learner::Code code, const reprise::Stats& stats) {
    // `save_repeatedly` may still be loading the newest checkpoint, and a save here would replace
    // it as the newest.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || Clock::now() < next_quiescent_save_) {
      return;
    }
    next_quiescent_save_ = Clock::now() + kSaveInterval;
    try {
      save();
      const std::unique_ptr<Shared> loaded = load();
      loaded->priorities = shared_.priorities;
      loaded->draw_counts.continue_from(shared_.draw_counts);
      loaded->exponent.store(shared_.exponent.load(std::memory_order_relaxed),
                             std::memory_order_relaxed);
      const reprise::Stats now = check_account(*loaded, stats, stats);
      Learner learner(*loaded, load_options_.learners);
      learner.check_whole_order();
      for (int i = 0; i < kBatchesAtRest; ++i) {
        static_cast<void>(learner.cycle());
      }
      check_items(*loaded, code == Learner::Code::Ok ? keys_of(conductor) : Keys{},
                  now.evicted_steps - std::min(now.evicted_steps, stats.evicted_steps));
    } catch (const std::exception& error) {
      findings_.add(Finding::BrokenCheckpoint, error.what());
    }
  }

  // The counts are relaxed: they are read after the threads have ended, or for display.
  std::atomic<std::uint64_t> saved = 0;
  std::atomic<std::uint64_t> items = 0;  ///< Items drawn from loaded buffers and checked.
  std::atomic<std::uint64_t> keys = 0;  ///< Keys from before a save that were valid after its load.

 private:
  /// Maps keys to the hashes of their items' names.
  using Keys = std::unordered_map<std::uint64_t, std::uint64_t>;

  static constexpr std::chrono::milliseconds kTick{5};
  static constexpr std::chrono::seconds kSaveInterval{1};
  static constexpr int kBatchesAtRest = 3;
  /// The most items drawn in one batch.
  static constexpr std::size_t kMaxBatchItems = std::size_t{1} << 16U;

  /// Removes the rate limiter, because nobody but the check uses a loaded buffer.
  static Options options_of(Options options) {
    options.limiter = "unlimited";
    return options;
  }

  /// Waits for the next save; false if the run ends.
  [[nodiscard]] bool wait() const {
    const Clock::time_point due =
        Clock::now() +
        (load_options_.churn ? std::chrono::milliseconds(kSaveInterval) / 20 : kSaveInterval);
    while (!is_run_ending() && Clock::now() < due) {
      std::this_thread::sleep_for(kTick);
    }
    return !is_run_ending();
  }
  [[nodiscard]] bool is_run_ending() const {
    return shared_.stop.load(std::memory_order_relaxed) ||
           shared_.closing.load(std::memory_order_relaxed);
  }

  void save() {
    shared_.replay.save(load_options_.checkpoint_path);
    saved.fetch_add(1, std::memory_order_relaxed);
  }

  /// Loads the newest checkpoint; throws if it cannot be read.
  std::unique_ptr<Shared> load() {
    auto loaded = std::make_unique<Shared>(load_options_, shared_.episodes, findings_);
    loaded->learners.resize(load_options_.learners + 1);
    // A load truncates the episodes that were open at the save.
    loaded->may_cut.store(true, std::memory_order_relaxed);
    const auto skipped = loaded->replay.restore(load_options_.checkpoint_path).skipped;
    if (!skipped.empty()) {
      throw reprise::CheckpointError(skipped.front().error);
    }
    return loaded;
  }

  void save_under_load() {
    reprise::Stats before;
    reprise::Stats after;
    std::unique_ptr<Shared> loaded;
    {
      const std::lock_guard lock(mutex_);
      {
        const Gate::Presence presence(shared_.gate);
        if (is_run_ending()) {
          return;
        }
        before = shared_.stats();
        save();
        after = shared_.stats();
      }
      loaded = load();
    }
    check_account(*loaded, before, after);
    check_items(*loaded, {}, 0);
  }

  void expect(bool holds, const std::string& words) {
    if (!holds) {
      findings_.add(Finding::BrokenCheckpoint, words);
    }
  }

  /// Compares the counts of the loaded buffer with those of the saved one `before` and `after` the
  /// save.
  reprise::Stats check_account(const Shared& loaded, const reprise::Stats& before,
                               const reprise::Stats& after) {
    const reprise::Stats now = loaded.stats();
    const auto show = [&](const char* what, std::uint64_t is, const char* bound,
                          std::uint64_t limit) {
      return std::string("after a load there are ") + std::to_string(is) + ' ' + what + "; " +
             bound + ' ' + std::to_string(limit);
    };
    expect(now.committed_steps == now.resident_steps + now.evicted_steps && now.pending_steps == 0,
           show("steps committed", now.committed_steps, "resident and evicted",
                now.resident_steps + now.evicted_steps));
    expect(now.resident_steps <= load_options_.capacity_steps,
           show("steps", now.resident_steps, "the capacity is", load_options_.capacity_steps));
    expect(now.committed_steps <= after.committed_steps,
           show("steps committed", now.committed_steps, "after the save there were",
                after.committed_steps));
    // A step that was decided (committed and no longer pending) before the save is in the
    // checkpoint, unless it was evicted before the save ended.
    const std::uint64_t decided = before.committed_steps - before.pending_steps;
    expect(now.resident_steps + after.evicted_steps >= decided,
           show("steps", now.resident_steps, "decided and not evicted before the save:",
                decided - std::min(decided, after.evicted_steps)));
    expect(
        now.writers == 0 && now.queued_chunks + now.retired_pinned == 0,
        show("writers", now.writers, "unfinished chunks", now.queued_chunks + now.retired_pinned));
    return now;
  }

  /// Draws as many items as possible in one batch, and compares them with the names that `before`
  /// has for their keys. Then it updates the items of `before`, so this check comes last. `evicted`
  /// is the number of steps that the load evicted.
  void check_items(Shared& loaded, const Keys& before, std::uint64_t evicted) {
    reprise::Sampler sampler = loaded.replay.sampler(Shared::sampler_options(1, 0.0F));
    WindowCheck windows({loaded.world, loaded.episodes, loaded.windows}, loaded.may_cut, findings_);
    bool each_once = false;
    if (const reprise::SampleResult batch = sample_all(loaded, sampler, each_once)) {
      const CheckedItems found = windows.check(*batch);
      std::unordered_set<std::uint64_t> seen;
      for (std::size_t i = 0; i < found.size(); ++i) {
        if (!found[i].correct) {
          continue;
        }
        const std::uint64_t hash = found[i].hash;
        expect(!each_once || seen.insert(hash).second,
               "twice in a loaded buffer: " + found[i].name.words());
        const auto known = before.find(batch->keys()[i].bits);
        expect(known == before.end() || known->second == hash,
               "a key from before the save names " + found[i].name.words());
      }
      items.fetch_add(batch->size(), std::memory_order_relaxed);
    }
    if (!before.empty()) {
      std::vector<reprise::ItemKey> old;
      for (const auto& [key, hash] : before) {
        old.push_back({key});
      }
      const std::vector<float> ones(old.size(), 1.0F);
      const auto result = loaded.replay.update_priorities(old, ones);
      expect(result.stale <= evicted || load_options_.exhausts(),
             std::to_string(result.stale) + " keys from before the save are stale after a load");
      keys.fetch_add(result.applied, std::memory_order_relaxed);
    }
  }

  /// Draws most items of positive weight, each once, and sets `each_once`. From a buffer with more
  /// than `kMaxBatchItems` items, draws `kMaxBatchItems` with replacement and clears `each_once`.
  static reprise::SampleResult sample_all(const Shared& loaded, reprise::Sampler& sampler,
                                          bool& each_once) {
    const std::size_t item_count = loaded.replay.stats().items;
    each_once = item_count <= kMaxBatchItems;
    if (!each_once) {
      return sampler.sample(kMaxBatchItems, {.timeout = kSampleTimeout});
    }
    // Fewer items may have a positive weight than the buffer has, so n shrinks until a draw
    // succeeds.
    for (std::size_t n = item_count; n != 0; n -= (n + 15) / 16) {
      const auto batch = sampler.sample(
          n, {.draws = reprise::Draws::WithoutReplacement, .timeout = std::chrono::nanoseconds(0)});
      if (batch) {
        return batch;
      }
    }
    return {nullptr, {}};
  }

  static Keys keys_of(Learner& learner) {
    Keys keys;
    const CheckedItems items = learner.check();
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].correct) {
        keys.emplace(learner.drawn().keys()[i].bits, items[i].hash);
      }
    }
    return keys;
  }

  Shared& shared_;
  Findings& findings_;
  const Options load_options_;
  std::mutex mutex_;                       ///< Held from a save to the end of its load.
  Clock::time_point next_quiescent_save_;  ///< Guarded by mutex_.
};

}  // namespace stress
