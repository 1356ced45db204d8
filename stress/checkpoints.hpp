#pragma once

#include "account.hpp"
#include "findings.hpp"
#include "learner.hpp"
#include "options.hpp"
#include "row.hpp"
#include "scene.hpp"
#include "window_check.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace stress {

/// Saves a buffer while it is used, and while all stand still. It loads each checkpoint into a
/// buffer of its own and judges that buffer by the laws of the world, and at rest also by what the
/// learners wrote.
///
/// `live` is for one thread, `at_rest` for another.
class Checkpoints {
 public:
  Checkpoints(Scene& scene, Findings& findings)
      : scene_(scene), findings_(findings), own_(options_of(scene.options)) {}

  /// Saves and loads until the run ends.
  void live() {
    while (wait()) {
      try {
        save_under_load();
      } catch (const std::exception& error) {
        findings_.add(Finding::BrokenCheckpoint, error.what());
        return;
      }
    }
  }

  /// Call it while everything is ingested and nobody moves. `got`: the result of the conductor's
  /// last batch.
  void at_rest(Learner& conductor, Got got, const Account& account) {
    // `live` may still be loading the newest checkpoint, and a save here would make another one the
    // newest.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || Clock::now() < next_rest_) {
      return;
    }
    next_rest_ = Clock::now() + kEvery;
    try {
      save();
      const std::unique_ptr<Loaded> loaded = load();
      loaded->scene.shadows = scene_.shadows;
      loaded->scene.ledger.go_on_from(scene_.ledger);
      loaded->scene.exponent.store(scene_.exponent.load(std::memory_order_relaxed),
                                   std::memory_order_relaxed);
      const Account now = check_account(*loaded, account, account);
      Learner learner(loaded->scene, own_.learners);
      learner.check_whole_order();
      for (int i = 0; i < kBatchesAtRest; ++i) {
        static_cast<void>(learner.cycle());
      }
      check_items(*loaded, got == Got::Batch ? keys_of(conductor) : Keys{},
                  now.evicted - std::min(now.evicted, account.evicted));
    } catch (const std::exception& error) {
      findings_.add(Finding::BrokenCheckpoint, error.what());
    }
  }

  // All relaxed: the counts are read once the threads are gone, or for display.
  std::atomic<std::uint64_t> saved = 0;
  std::atomic<std::uint64_t> items = 0;  ///< Items of loaded buffers, each drawn and judged.
  std::atomic<std::uint64_t> keys = 0;   ///< Keys from before a save, each used after its load.

 private:
  /// Keys and the hashes of their items' identities.
  using Keys = std::unordered_map<std::uint64_t, std::uint64_t>;

  struct Loaded {
    Loaded(const Options& options, const World& world, Findings& findings)
        : store(options, world.round(), findings), scene(options, world, store, findings) {
      for (std::size_t l = 0; l < options.learners + 1; ++l) {
        scene.learners.emplace_back();
      }
      // A load ends the episodes that were under way.
      scene.cutting.store(true, std::memory_order_relaxed);
    }
    RepriseStore store;
    Scene scene;
  };

  static constexpr std::chrono::milliseconds kTick{5};
  static constexpr std::chrono::seconds kEvery{1};
  static constexpr int kBatchesAtRest = 3;
  /// The most items that are drawn together.
  static constexpr std::size_t kMost = std::size_t{1} << 16U;

  /// Only the check draws from a loaded buffer, so no rate limiter may hold it.
  static Options options_of(Options options) {
    options.limiter = "unlimited";
    return options;
  }

  /// False once the run ends.
  [[nodiscard]] bool wait() const {
    const Clock::time_point due =
        Clock::now() + (own_.churn ? std::chrono::milliseconds(kEvery) / 20 : kEvery);
    while (!over() && Clock::now() < due) {
      std::this_thread::sleep_for(kTick);
    }
    return !over();
  }
  [[nodiscard]] bool over() const {
    return scene_.stop.load(std::memory_order_relaxed) ||
           scene_.closing.load(std::memory_order_relaxed);
  }

  void save() {
    scene_.store.save(own_.checkpoint_path);
    saved.fetch_add(1, std::memory_order_relaxed);
  }

  std::unique_ptr<Loaded> load() {
    auto loaded = std::make_unique<Loaded>(own_, scene_.world, findings_);
    loaded->store.restore(own_.checkpoint_path);
    return loaded;
  }

  void save_under_load() {
    Account before;
    Account after;
    std::unique_ptr<Loaded> loaded;
    {
      const std::lock_guard lock(mutex_);
      {
        const Gate::Presence presence(scene_.gate);
        if (over()) {
          return;
        }
        before = scene_.store.account();
        save();
        after = scene_.store.account();
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

  /// `before` and `after`: accounts of the saved buffer around the save.
  Account check_account(Loaded& loaded, const Account& before, const Account& after) {
    const Account account = loaded.store.account();
    const auto show = [&](const char* what, std::uint64_t is, const char* bound,
                          std::uint64_t limit) {
      return std::string("after a load there are ") + std::to_string(is) + ' ' + what + "; " +
             bound + ' ' + std::to_string(limit);
    };
    expect(account.committed == account.resident + account.evicted && account.pending == 0,
           show("steps committed", account.committed, "resident and evicted",
                account.resident + account.evicted));
    expect(account.resident <= own_.capacity_steps,
           show("steps", account.resident, "the capacity is", own_.capacity_steps));
    expect(
        account.committed <= after.committed,
        show("steps committed", account.committed, "after the save there were", after.committed));
    // Steps that were decided before the save are in the checkpoint, or have been evicted.
    const std::uint64_t decided = before.committed - before.pending;
    expect(account.resident + after.evicted >= decided,
           show("steps", account.resident, "decided and not evicted before the save:",
                decided - std::min(decided, after.evicted)));
    expect(account.writers == 0 && account.unfinished == 0,
           show("writers", account.writers, "unfinished chunks", account.unfinished));
    return account;
  }

  /// Draws as many items as possible at once, and compares them with what is known of their keys.
  /// It is the last check of a loaded buffer, because it uses the keys. `evicted`: steps that the
  /// load itself evicted, of episodes that it ended.
  void check_items(Loaded& loaded, const Keys& before, std::uint64_t evicted) {
    RepriseStore::Learner learner(loaded.store, 1);
    WindowCheck windows(scene_.world, loaded.scene.windows, loaded.scene.cutting, findings_);
    if (learner.sample_all(kMost) == Got::Batch) {
      const Drawn& drawn = learner.drawn();
      const auto judged = windows.check(drawn);
      std::unordered_set<std::uint64_t> seen;
      for (std::size_t i = 0; i < drawn.size; ++i) {
        if (!judged[i].legible) {
          continue;
        }
        const std::uint64_t hash = judged[i].id.hash();
        expect(!drawn.without_replacement || seen.insert(hash).second,
               "twice in a loaded buffer: " + words_of(judged[i].id));
        const auto known = before.find(drawn.keys[i]);
        expect(known == before.end() || known->second == hash,
               "a key from before the save names " + words_of(judged[i].id));
      }
      items.fetch_add(drawn.size, std::memory_order_relaxed);
    }
    if (!before.empty()) {
      std::vector<std::uint64_t> old;
      for (const auto& [key, hash] : before) {
        old.push_back(key);
      }
      const std::vector<float> ones(old.size(), 1.0F);
      const auto result = learner.update(old, ones);
      expect(result.stale <= evicted || own_.max_times_sampled != 0,
             std::to_string(result.stale) + " keys from before the save are stale after a load");
      keys.fetch_add(result.applied, std::memory_order_relaxed);
    }
  }

  static Keys keys_of(Learner& learner) {
    Keys keys;
    const Drawn& drawn = learner.drawn();
    const auto judged = learner.judge();
    for (std::size_t i = 0; i < drawn.size; ++i) {
      if (judged[i].legible) {
        keys.emplace(drawn.keys[i], judged[i].id.hash());
      }
    }
    return keys;
  }

  Scene& scene_;
  Findings& findings_;
  const Options own_;
  std::mutex mutex_;             ///< Held from a save to the end of its load.
  Clock::time_point next_rest_;  ///< Guarded by mutex_.
};

}  // namespace stress
