#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// The numbers of the fresh items in a batch of n items.
std::vector<std::uint64_t> fresh_numbers(const NumberedBuffer& line, Sampler& sampler,
                                         std::size_t n, const SampleOptions& how = kNoWait) {
  const SampleResult batch = sampler.sample(n, how);
  EXPECT_TRUE(batch) << batch.status().message();
  if (!batch) {
    return {};
  }
  const auto ids = batch->now(line.id).first(batch.status().fresh);
  return {ids.begin(), ids.end()};
}

class FreshIn : public testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(Shards, FreshIn, testing::Values(1U, 3U));

TEST_P(FreshIn, ItemsOfAllShardsAreServedAsTheyCome) {
  Options options = SmallOptions{.shards = GetParam()};
  options.capacity_steps = 2000;
  NumberedBuffer line(options);
  Sampler sampler = line.replay.sampler({.seed = 1, .fresh = 1.0F});
  std::vector<std::uint64_t> all;
  for (std::uint64_t number = 0; number < 600; number += 20) {
    line.append_many(number, 20);
    for (int b = 0; b < 2; ++b) {
      for (const std::uint64_t id : fresh_numbers(line, sampler, 10)) {
        all.push_back(id);
      }
    }
  }
  EXPECT_EQ(sorted(all), number_range(0, 600));
  // If more items are waiting than samplers draw, the oldest of each shard come first.
  line.append_many(600, 300);
  std::vector<std::uint64_t> first = fresh_numbers(line, sampler, 60);
  ASSERT_EQ(first.size(), 60U);
  for (int b = 0; b < 30; ++b) {
    first.push_back(fresh_numbers(line, sampler, 1).at(0));
  }
  if (GetParam() == 1) {
    EXPECT_EQ(first, number_range(600, 690));
  }
  EXPECT_LT(*std::ranges::max_element(first), 720U) << "90 of 300 were drawn";
}

TEST_P(FreshIn, AnItemThatAnybodyHasDrawnIsNotFresh) {
  NumberedBuffer line(SmallOptions{.shards = GetParam()});
  Sampler sampler = line.replay.sampler({.fresh = 0.5F});
  line.append_many(0, 40);
  ASSERT_EQ(line.replay.size(), 40U);
  Sampler plain = line.replay.selector(1).sampler();
  const SampleResult batch = require_batch(plain.sample(10, kNoWait));
  const auto ids = batch->now(line.id);
  std::set<std::uint64_t> drawn(ids.begin(), ids.end());
  Sampler another = line.replay.selector(1).sampler({.seed = 4});
  const SampleResult whole = require_batch(another.sample(5, {.draws = Draws::WithoutReplacement}));
  drawn.insert(whole->now(line.id).begin(), whole->now(line.id).end());
  for (std::size_t fresh = 1; fresh != 0;) {
    const SampleResult next = require_batch(sampler.sample(6, kNoWait));
    fresh = next.status().fresh;
    for (std::size_t i = 0; i < 6; ++i) {
      const std::uint64_t id = next->now(line.id)[i];
      EXPECT_TRUE(drawn.insert(id).second || i >= fresh) << id << " was drawn before";
    }
  }
  EXPECT_EQ(drawn.size(), 40U);
}

TEST(Fresh, AreNotItemsThatAnOrderedSelectorHasDrawn) {
  Options options = SmallOptions{.shards = 3};
  options.selectors = {kRawProportional, Fifo{}};
  NumberedBuffer line(options);
  Sampler sampler = line.replay.sampler({.fresh = 1.0F});
  line.append_many(0, 20);
  ASSERT_TRUE(as_lvalue(line.replay.selector(1).sampler()).sample(5, kNoWait));
  EXPECT_EQ(sorted(fresh_numbers(line, sampler, 15)), number_range(5, 20));
}

TEST(Fresh, AreNotTheItemsFromBeforeTheFirstSamplerThatAsksForThem) {
  NumberedBuffer line;
  line.append_many(0, 10);
  ASSERT_EQ(line.replay.size(), 10U);
  Sampler sampler = line.replay.sampler({.fresh = 1.0F});
  EXPECT_TRUE(fresh_numbers(line, sampler, 10).empty());
  line.append_many(10, 5);
  Sampler another = line.replay.sampler({.fresh = 1.0F});
  EXPECT_EQ(fresh_numbers(line, another, 10), number_range(10, 15));
}

TEST(Fresh, AreNotTheItemsThatACheckpointLoads) {
  const ScratchDirectory directory;
  NumberedBuffer line;
  Sampler sampler = line.replay.sampler({.fresh = 1.0F});
  line.append_many(0, 20);
  (void)line.replay.save(directory.path());
  ReplayBuffer loaded = ReplayBuffer::load(directory.path()).buffer;
  const SampleResult batch =
      require_batch(as_lvalue(loaded.sampler({.fresh = 1.0F})).sample(20, kNoWait));
  EXPECT_EQ(batch.status().fresh, 0U);
  EXPECT_EQ(fresh_numbers(line, sampler, 20), number_range(0, 20));
}

TEST(Fresh, IsRefusedForDrawsThatFreshItemsCannotPrecede) {
  for (const float share : {-0.1F, 1.1F, std::numeric_limits<float>::quiet_NaN()}) {
    expect_refusal(
        [&] {
          NumberedBuffer line;
          (void)line.replay.sampler({.fresh = share});
        },
        {"fresh", "0 to 1"});
  }
  Options limited = SmallOptions{.max_times_sampled = 2};
  Options first_in = SmallOptions{.selectors = {Fifo{}}};
  for (const Options& options : {limited, first_in}) {
    NumberedBuffer line(options);
    expect_refusal([&] { (void)line.replay.sampler({.fresh = 0.5F}); },
                   {"fresh", "order", "max_times_sampled"});
  }
  NumberedBuffer line;
  Sampler sampler = line.replay.sampler({.fresh = 0.5F});
  for (const Draws draws : {Draws::WithoutReplacement, Draws::Epoch}) {
    expect_refusal([&] { (void)sampler.sample(2, {.draws = draws, .timeout = 0ns}); },
                   {"Stratified", "fresh"});
  }
}

/// Samplers draw fresh items at the same time, while writers append and items are evicted.
TEST(FreshRace, NoItemIsFreshTwice) {
  for (std::size_t round = 0; round < scaled(20, 4); ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << round);
    Options options = SmallOptions{.shards = 1 + round % 3};
    // In odd rounds nothing is evicted, so each item must be fresh exactly once.
    options.capacity_steps = round % 2 == 0 ? 64 : 4000;
    NumberedBuffer line(options);
    Sampler last = line.replay.sampler({.fresh = 1.0F});
    Writer first = line.replay.writer();
    line.append_many(first, 0, 1);
    std::atomic<int> writing = 2;
    std::mutex mutex;
    std::set<std::uint64_t> seen;
    // The number of the batch, from 1 on, in which each item was first drawn.
    std::map<std::uint64_t, int> drawn;
    std::atomic<int> batches = 0;
    const auto note = [&](Sampler& sampler, std::size_t n) {
      const int before = batches;
      const SampleResult batch = require_batch(sampler.sample(n));
      const std::lock_guard lock(mutex);
      for (const std::uint64_t id : batch->now(line.id).first(batch.status().fresh)) {
        ASSERT_TRUE(seen.insert(id).second) << id << " is fresh twice";
        ASSERT_TRUE(!drawn.contains(id) || drawn[id] > before) << id << " was drawn before";
      }
      ++batches;
      for (const std::uint64_t id : batch->now(line.id)) {
        drawn.emplace(id, batches);
      }
    };
    {
      std::vector<std::jthread> threads;
      for (std::uint64_t w = 1; w < 3; ++w) {
        threads.emplace_back([&, w] {
          Writer writer = line.replay.writer();
          line.append_many(writer, 10'000 * w, 800);
          --writing;
        });
        threads.emplace_back([&, w] {
          Sampler sampler = line.replay.sampler({.seed = w, .fresh = 1.0F});
          while (writing != 0) {
            note(sampler, 7);
          }
        });
      }
    }
    for (int i = 0; i < 300; ++i) {
      note(last, 7);
    }
    if (options.capacity_steps == 4000) {
      EXPECT_EQ(drawn.size(), 1U + 2U * 800U);
    }
    expect_steps_add_up(line.replay);
  }
}

}  // namespace
}  // namespace reprise::test
