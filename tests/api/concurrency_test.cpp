#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"
#include "testing/fixtures/removers.hpp"
#include "testing/fixtures/rng.hpp"
#include "testing/fixtures/threads.hpp"
#include "testing/program/sanitizer.hpp"
#include "testing/program/scale.hpp"
#include "testing/worlds/episodes.hpp"
#include "testing/worlds/item_check.hpp"
#include "testing/worlds/window_rule.hpp"
#include "testing/worlds/world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace reprise::test {
namespace {

/// Episodes whose length and end follow from their id, as their rows do: a window can be judged
/// completely without knowing anything about the threads that wrote it.
class IdWorld {
 public:
  explicit IdWorld(bool compressed = false) : world_({.compressed = compressed}) {}

  static constexpr Transitions kWindow{.n_step = 3, .discount = 0.5F, .frame_stack = 2};

  [[nodiscard]] const Schema& schema() const { return world_.schema(); }
  [[nodiscard]] Episode episode(std::uint64_t id) const {
    return episodes_.episode(0, World::name_of(id, 0).episode);
  }

  /// Writes one whole episode; false if the buffer was closed. The caller destroys the writer if
  /// the episode ends so.
  bool write_episode(Writer& writer) const {
    world_.begin(writer);
    const Episode it = episode(writer.episode_id());
    for (std::uint32_t step = 1; step <= it.length; ++step) {
      world_.write_step(writer);
      if (writer.commit(it.end_of(step)) == CommitStatus::Closed) {
        return false;
      }
    }
    if (writer.in_episode()) {
      world_.write_step(writer);  // Never committed, so never seen.
    }
    return true;
  }

  /// In words, the first thing wrong with the batch; empty if nothing is.
  [[nodiscard]] std::string mismatch(const Batch& batch) const {
    CheckedItem checked;
    std::string words;
    for (std::size_t i = 0; i < batch.size() && words.empty(); ++i) {
      words = ItemCheck(world_, episodes_, rule_).mismatch(batch, i, checked);
    }
    return words;
  }

 private:
  World world_;
  Episodes episodes_{1, true, 0};
  WindowRule rule_{kWindow};
};

struct Load {
  std::string name;
  std::size_t capacity;
  std::size_t chunk;
  std::size_t shards;
  std::size_t actors;
  std::size_t learners;
  std::size_t batch;
  std::uint64_t steps;
  Remover remover = Fifo{};
  bool compressed = false;
};

std::ostream& operator<<(std::ostream& out, const Load& load) {
  return out << load.name;
}

std::vector<Load> loads() {
  std::vector<Load> all = {
      {"Usual", 5000, 128, 3, 4, 2, 64, 200'000},
      {"TinyChunksAndCapacity", 40, 5, 2, 4, 2, 32, 60'000},
      {"CapacityOfOne", 1, 5, 1, 3, 2, 4, 30'000},
      {"ManyActors", 2000, 32, 4, 16, 1, 128, 100'000},
      {"ManyLearnersOfLargeBatches", 300, 16, 1, 2, 4, 500, 60'000},
  };
  for (const NamedRemover& named : all_removers()) {
    all.push_back({named.name, 200, 9, 2, 4, 2, 32, 40'000, named.remover});
  }
  all.push_back({"Compressed", 300, 12, 2, 4, 2, 32, 40'000, Fifo{}, true});
  return all;
}

class Concurrency : public testing::TestWithParam<Load> {
 protected:
  Concurrency() : replay_(world_.schema(), options(GetParam())) {}

  static Options options(const Load& load) {
    return Options{.capacity_steps = load.capacity,
                   .window = IdWorld::kWindow,
                   .selectors = {Proportional{}, Uniform{}},
                   .remover = load.remover,
                   .max_writers = load.actors,
                   .chunk_steps = load.chunk,
                   .shards = load.shards,
                   .key_tag = 9};
  }

  /// Whole episodes until this many steps are in; writers come and go as the episodes say.
  void act(std::uint64_t steps) {
    std::optional<Writer> writer;
    std::uint64_t written = 0;
    while (written < steps) {
      if (!writer) {
        writer.emplace(replay_.writer());
      }
      if (!world_.write_episode(*writer)) {
        return;
      }
      written += world_.episode(writer->episode_id()).length;
      if (world_.episode(writer->episode_id()).ending >= Ending::WriterDestroyed) {
        writer.reset();
      }
    }
    writer.reset();
    committed_.fetch_add(written, std::memory_order_relaxed);
  }

  /// Draws, judges every window and writes priorities back, until told to stop. Every other learner
  /// shares its gathers out.
  void learn(std::uint64_t learner) {
    Rng rng(learner);
    const bool alone = kThreadSanitizer || learner % 2 == 1;
    Sampler sampler = replay_.sampler({.seed = learner,
                                       .selector = learner % 3 == 2 ? 1U : 0U,
                                       .parallel_gather_bytes = alone ? kGatherAlone : 1});
    std::vector<float> priorities(GetParam().batch);

    while (!done_.load(std::memory_order_relaxed)) {
      SampleOptions how{.timeout = std::chrono::milliseconds(1)};
      how.draws = rng.chance(0.5) ? Draws::Stratified : Draws::Independent;
      how.normalise = static_cast<Normalise>(rng.below(3));
      const SampleResult batch = sampler.sample(GetParam().batch, how);
      if (!batch) {
        ASSERT_EQ(batch.status().code, SampleStatus::Code::TimedOut);
        continue;
      }
      ASSERT_EQ(world_.mismatch(*batch), "");
      for (const double probability : batch->probabilities()) {
        ASSERT_GT(probability, 0.0);
        ASSERT_LE(probability, 1.0 + 1e-12);
      }
      for (float& priority : priorities) {
        priority = static_cast<float>(rng.unit());
      }
      const UpdateResult result = replay_.update_priorities(batch->keys(), priorities);
      ASSERT_EQ(result.applied + result.stale, batch->size());
      applied_.fetch_add(result.applied, std::memory_order_relaxed);
      stale_.fetch_add(result.stale, std::memory_order_relaxed);
      drawn_.fetch_add(batch->size(), std::memory_order_relaxed);
    }
  }

  IdWorld world_{GetParam().compressed};
  ReplayBuffer replay_;
  std::atomic<bool> done_ = false;
  std::atomic<std::uint64_t> committed_ = 0;
  std::atomic<std::uint64_t> drawn_ = 0;
  std::atomic<std::uint64_t> applied_ = 0;
  std::atomic<std::uint64_t> stale_ = 0;
};

TEST_P(Concurrency, EveryWindowSampledIsTrueAndEveryStepIsAccountedFor) {
  const Load& load = GetParam();
  std::vector<std::jthread> learners;
  start(learners, load.learners, [this](std::uint64_t l) { learn(l); });
  std::vector<std::jthread> actors;
  start(actors, load.actors, [this, &load] { act(scaled(load.steps, 2000) / load.actors); });
  actors.clear();
  while (drawn_.load(std::memory_order_relaxed) < load.batch) {
    std::this_thread::yield();  // On a busy machine the actors may be done before one draw.
  }
  done_.store(true, std::memory_order_relaxed);
  learners.clear();

  const std::uint64_t committed = committed_.load();
  EXPECT_EQ(replay_.size(), std::min<std::uint64_t>(committed, load.capacity));
  const Stats stats = replay_.stats();
  EXPECT_EQ(stats.committed_steps, committed);
  EXPECT_EQ(stats.pending_steps, 0U);
  EXPECT_EQ(stats.evicted_steps, committed - stats.resident_steps);
  EXPECT_EQ(stats.sampled_items, drawn_.load());
  EXPECT_EQ(stats.applied_updates, applied_.load());
  EXPECT_EQ(stats.stale_updates, stale_.load());
  EXPECT_EQ(stats.writers, 0U);
  EXPECT_EQ(stats.retired_pinned, 0U);
  EXPECT_LE(stats.chunks_touched, stats.chunks);
  Sampler sampler = replay_.sampler({.selector = 1, .parallel_gather_bytes = kGatherAlone});
  const SampleResult batch = require_batch(sampler.sample(4 * replay_.size()));
  EXPECT_EQ(world_.mismatch(*batch), "");
  EXPECT_EQ(std::set<ItemKey>(batch->keys().begin(), batch->keys().end()).size(), replay_.size());
}

INSTANTIATE_TEST_SUITE_P(Loads, Concurrency, testing::ValuesIn(loads()),
                         [](const auto& load) { return load.param.name; });

TEST(ConcurrentWriters, AreMadeAndDestroyedByManyThreadsAtOnce) {
  const IdWorld world;
  ReplayBuffer replay(world.schema(), Options{.capacity_steps = 1000,
                                              .window = IdWorld::kWindow,
                                              .max_writers = 8,
                                              .chunk_steps = 16,
                                              .shards = 2});
  const std::size_t rounds = scaled(1500, 100);
  std::atomic<std::uint64_t> committed = 0;
  std::vector<std::jthread> threads;
  start(threads, 8, [&] {
    for (std::size_t episode = 0; episode < rounds; ++episode) {
      Writer writer = replay.writer();
      if (episode % 3 != 0) {
        ASSERT_TRUE(world.write_episode(writer));
        committed.fetch_add(world.episode(writer.episode_id()).length, std::memory_order_relaxed);
      }
    }
  });
  threads.clear();
  EXPECT_EQ(replay.stats().writers, 0U);
  EXPECT_EQ(replay.stats().committed_steps, committed.load());
  EXPECT_EQ(replay.size(), std::min<std::uint64_t>(1000, committed.load()));
  expect_accounted(replay);
  Sampler sampler = replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(500));
  EXPECT_EQ(world.mismatch(*batch), "");
}

}  // namespace
}  // namespace reprise::test
