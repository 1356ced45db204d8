#include "buffer/buffer_core.hpp"
#include "testing/faults/lock_holder.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/test.hpp"

/// Weights change during draws. The schedule points of the preset `schedule` give the changes more
/// time.
namespace reprise::test {
namespace {

using Code = SampleStatus::Code;

TEST(SampleRace, NothingToDrawIsNeverSaidWhileEveryItemHasWeight) {
  const std::size_t rounds = scaled(400, 40);
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::string seed = "seed " + std::to_string(round);
    SCOPED_TRACE(seed);
    NumberedBuffer line(SmallOptions{.shards = 1 + round % 3});
    std::vector<std::jthread> threads;
    start(threads, 2, [&] {
      SCOPED_TRACE(seed);  // Each thread needs a trace of its own.
      Sampler sampler = line.replay.sampler();
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(sampler.sample(4).status().code, Code::Ok);
      }
    });
    line.append_many(0, 40);
  }
}

TEST(SampleRace, ALockThatIsHeldLeavesABatchOfOneSeedAsItIs) {
  NumberedBuffer line(SmallOptions{.shards = 4});
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 60);
  Sampler undisturbed = line.replay.sampler({.seed = 5});
  const SampleResult expected = require_batch(undisturbed.sample(32));
  auto& first = core_of(line.replay)->shards()[0];
  LockHolder holder(first.mutex);
  std::jthread learner([&] {
    Sampler sampler = line.replay.sampler({.seed = 5});
    const SampleResult batch = require_batch(sampler.sample(32));
    EXPECT_THAT(batch->keys(), testing::ElementsAreArray(expected->keys()));
  });
  // The sampler has drawn from the other shards once it waits for this lock.
  yield_while([&] { return first.samplers_waiting.load() == 0; });
  holder.release();
}

class WeightsThatVanish : public testing::Test {
 protected:
  static constexpr std::size_t kShards = 3;

  WeightsThatVanish() : line_(options()) {
    Writer writer = line_.replay.writer();
    line_.append_many(writer, 0, 60);
    const std::size_t slots = line_.replay.stats().chunks * line_.replay.options().chunk_steps;
    slots_per_shard_ = slots / kShards;
    key_of_ = line_.keys();
    for (const auto& [number, key] : key_of_) {
      keys_[shard_of(key)].push_back(key);
    }
  }

  static Options options() { return SmallOptions{.shards = kShards}; }

  /// Makes shards lose all weight and get it back. One of them always has weight.
  void toggle(std::uint64_t seed) {
    Rng rng(seed);
    std::size_t weighted_shard = 0;
    while (!stop_.load(std::memory_order_relaxed)) {
      const std::size_t next = (weighted_shard + 1 + rng.below(kShards - 1)) % kShards;
      set(next, 1.0F);
      set(weighted_shard, 0.0F);
      weighted_shard = next;
    }
  }

  void set(std::size_t shard, float priority) {
    const std::vector<float> priorities(keys_[shard].size(), priority);
    line_.replay.update_priorities(keys_[shard], priorities);
  }

  std::size_t shard_of(ItemKey key) const { return key.slot() / slots_per_shard_; }

  /// All items with weight have the same weight. So if all items of a batch are from one shard, no
  /// other shard had a share, and each item of that shard must have been equally likely.
  void expect_whole_share(const Batch& batch) const {
    std::set<std::size_t> shards;
    for (const ItemKey key : batch.keys()) {
      shards.insert(shard_of(key));
    }
    if (shards.size() == 1) {
      const auto items = static_cast<double>(keys_[*shards.begin()].size());
      for (const double probability : batch.probabilities()) {
        ASSERT_NEAR(probability * items, 1.0, 1e-12);
      }
    }
  }

  NumberedBuffer line_;
  std::size_t slots_per_shard_ = 0;
  std::vector<ItemKey> keys_[kShards];
  std::map<std::uint64_t, ItemKey> key_of_;  ///< The key of each step's item.
  std::atomic<bool> stop_ = false;
};

TEST_F(WeightsThatVanish, InTheMiddleOfADrawLeaveNoPinAndNoProbabilityOfZero) {
  for (const auto& keys : keys_) {
    ASSERT_FALSE(keys.empty());
  }
  set(1, 0.0F);
  set(2, 0.0F);
  std::jthread toggler([this] { toggle(1); });
  std::vector<std::jthread> learners;
  start(learners, 2, [this](std::uint64_t seed) {
    Sampler sampler = line_.replay.sampler({.seed = seed});
    for (std::size_t i = 0; i < scaled(20'000, 1000); ++i) {
      const SampleResult batch = sampler.sample(
          6, {.draws = i % 2 == 0 ? Draws::Stratified : Draws::Independent, .timeout = 0ns});
      // While the sampler goes from shard to shard, the weight may move, so that no shard has any.
      if (!batch) {
        ASSERT_EQ(batch.status().code, Code::NothingToDraw);
        continue;
      }
      for (std::size_t k = 0; k < batch->size(); ++k) {
        ASSERT_GT(batch->probabilities()[k], 0.0);
        ASSERT_LE(batch->probabilities()[k], 1.0 + 1e-12);
        ASSERT_EQ(batch->keys()[k], key_of_.at(batch->now(line_.action)[k]));
      }
      if (i % 2 == 0) {
        expect_whole_share(*batch);
      }
    }
  });
  learners.clear();
  stop_.store(true, std::memory_order_relaxed);
  toggler.join();
  // If a chunk were still pinned, the statistics would count it once it is retired.
  Writer writer = line_.replay.writer();
  line_.append_many(writer, 0, 500);
  EXPECT_EQ(line_.replay.size(), 64U);
  EXPECT_EQ(line_.replay.stats().retired_pinned, 0U);
  expect_steps_add_up(line_.replay);
}

TEST_F(WeightsThatVanish, OrShrinkMeanwhileGiveNoImportanceAboveOne) {
  set(2, 0.0F);
  Sampler sampler = line_.replay.sampler();
  LockHolder first(core_of(line_.replay)->shards()[0].mutex);
  LockHolder second(core_of(line_.replay)->shards()[1].mutex);
  std::jthread learner([&] {
    const SampleResult batch =
        require_batch(sampler.sample(4096, {.beta = 1.0F, .normalise = Normalise::ByBuffer}));
    for (const float weight : batch->weights()) {
      ASSERT_LE(weight, 1.0F);
    }
  });
  yield_while([&] { return core_of(line_.replay)->shards()[0].samplers_waiting.load() == 0; });
  second.release();
  // The other items of this item's shard are now less likely than any item was before.
  const float heavy = 1000.0F;
  line_.replay.update_priorities(std::span(keys_[1]).first(1), std::span(&heavy, 1));
  first.release();
}

TEST_F(WeightsThatVanish, LeaveTheirShareToTheOthers) {
  set(2, 0.0F);
  Sampler sampler = line_.replay.sampler();
  LockHolder first(core_of(line_.replay)->shards()[0].mutex);
  LockHolder second(core_of(line_.replay)->shards()[1].mutex);
  std::jthread learner([&] {
    const SampleResult batch = require_batch(sampler.sample(6));
    for (const ItemKey key : batch->keys()) {
      EXPECT_EQ(shard_of(key), 0U);
    }
    expect_whole_share(*batch);
  });
  // Once the sampler waits for the first lock, it has allotted half of the draws to each shard.
  yield_while([&] { return core_of(line_.replay)->shards()[0].samplers_waiting.load() == 0; });
  second.release();
  set(1, 0.0F);
  first.release();
}

}  // namespace
}  // namespace reprise::test
