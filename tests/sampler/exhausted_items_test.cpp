#include "../shard/audit.hpp"
#include "buffer/buffer_core.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/test.hpp"

#include <ranges>

// Items that were drawn `max_times_sampled` times are exhausted. They stay in the buffer until they
// are evicted, but are evicted before items that may still be drawn.

namespace reprise::test {
namespace {

bool invariants_hold(ReplayBuffer& replay) {
  buffer::ShardSet& shards = core_of(replay)->shards();
  for (std::size_t s = 0; s < shards.size(); ++s) {
    if (!shard::Audit::invariants_hold(*buffer::ShardSet::Lock(shards, s).operator->())) {
      return false;
    }
  }
  return true;
}

struct Case {
  std::size_t capacity = 0;
  std::size_t shards = 0;
  std::uint32_t max_times_sampled = 1;
  std::size_t min_size = 0;
  std::size_t batch = 0;
  Remover remover = Fifo{};
};

Options options_of(const Case& setting) {
  return Options{.capacity_steps = setting.capacity,
                 .selectors = {Uniform{}},
                 .max_times_sampled = setting.max_times_sampled,
                 .remover = setting.remover,
                 .rate_limiter = MinSize{setting.min_size},
                 .max_writers = 4,
                 .shards = setting.shards};
}

/// A sampler must not lack items for long: each appended step adds an item, or evicts an exhausted
/// one.
TEST(ExhaustedItems, NeverStarveASampler) {
  const std::vector<Case> cases{
      {1'000, 4, 1, 500, 64},
      {1'000, 1, 1, 500, 64},
      {1'000, 4, 1, 950, 100},
      {4'096, 2, 3, 3'000, 512},
      {20'000, 0, 1, 10'000, 512},
      {20'000, 8, 2, 19'000, 512},
      {1'000, 4, 1, 500, 64, SecondChance{}},
      {1'000, 4, 1, 500, 64, LeastRecentlySampled{}},
      {1'000, 4, 1, 500, 64, LeastFrequentlySampled{}},
  };
  for (std::size_t c = 0; c < cases.size(); ++c) {
    SCOPED_TRACE(testing::Message() << "case " << c);
    const Case& setting = cases[c];
    NumberedBuffer line(options_of(setting));
    Sampler sampler = line.replay.sampler({.seed = 3});
    std::uint64_t number = 0;
    const auto fill = [&](std::size_t steps) {
      for (std::size_t i = 0; i < steps; ++i) {
        ASSERT_EQ(line.append(number++), CommitStatus::Committed);
      }
    };
    fill(setting.capacity);
    for (int batch = 0; batch < 100; ++batch) {
      std::size_t appended = 0;
      while (!sampler.sample(setting.batch, kNoWait)) {
        ASSERT_LE(appended, setting.capacity)
            << "batch " << batch << ": " << line.replay.stats().items << " items of "
            << line.replay.size() << " steps may be drawn";
        fill(16);
        appended += 16;
      }
    }
    EXPECT_EQ(line.replay.size(), setting.capacity);
    EXPECT_TRUE(invariants_hold(line.replay));
  }
}

/// Exhausted items are evicted from all shards, not only from the one to which the writer appends.
TEST(ExhaustedItems, LeaveFirstFromEveryShard) {
  for (const std::size_t shards : {1U, 4U}) {
    SCOPED_TRACE(testing::Message() << shards << " shards");
    NumberedBuffer line(SmallOptions{
        .capacity_steps = 256, .selectors = {Fifo{}}, .max_times_sampled = 1, .shards = shards});
    line.append_many(0, 256);
    Sampler sampler = line.replay.sampler();
    ASSERT_TRUE(sampler.sample(128, kNoWait));
    line.append_many(256, 128);
    EXPECT_EQ(line.replay.size(), 256U);
    EXPECT_EQ(line.replay.stats().items, 256U) << "every step that left was exhausted";
    const SampleResult rest = require_batch(sampler.sample(256, kNoWait));
    EXPECT_TRUE(std::ranges::equal(rest->now(line.id), number_range(128, 384)));
  }
}

/// A chunk whose items are all exhausted leaves before older ones.
TEST(ExhaustedItems, OfAYoungChunkLeaveBeforeOlderOnesThatMayBeDrawn) {
  for (const std::size_t shards : {1U, 4U}) {
    SCOPED_TRACE(testing::Message() << shards << " shards");
    NumberedBuffer line(SmallOptions{.capacity_steps = 256,
                                     .selectors = {Lifo{}},
                                     .max_times_sampled = 1,
                                     .chunk_steps = 16,
                                     .shards = shards});
    line.append_many(0, 256);
    Sampler sampler = line.replay.sampler();
    ASSERT_TRUE(sampler.sample(128, kNoWait));
    line.append_many(256, 96);
    EXPECT_EQ(line.replay.size(), 256U);
    const SampleResult rest = require_batch(sampler.sample(line.replay.stats().items, kNoWait));
    const std::span<const std::uint64_t> ids = rest->now(line.id);
    const std::set<std::uint64_t> left(ids.begin(), ids.end());
    for (const std::uint64_t id : number_range(0, 128)) {
      EXPECT_TRUE(left.contains(id)) << "step " << id << " was never drawn";
    }
  }
}

/// Wherever exhausted items lie, writers find a free chunk, because only few chunks may be evicted
/// in part.
TEST(ExhaustedItems, LeaveWritersTheMemoryThatTheyNeed) {
  for (const std::size_t shards : {1U, 3U}) {
    for (const Draws draws : {Draws::Stratified, Draws::WithoutReplacement}) {
      SCOPED_TRACE(testing::Message() << shards << " shards, draws " << static_cast<int>(draws));
      NumberedBuffer line(SmallOptions{.capacity_steps = 300,
                                       .selectors = {Uniform{}},
                                       .max_times_sampled = 1,
                                       .max_writers = 1,
                                       .chunk_steps = 4,
                                       .shards = shards});
      Writer writer = line.replay.writer({.timeout = 5s});
      Sampler sampler = line.replay.sampler({.seed = 5});
      line.append_many(writer, 0, 300);
      for (std::uint64_t number = 300; number < 20'000; ++number) {
        ASSERT_EQ(line.append(writer, number), CommitStatus::Committed) << "step " << number;
        if (number % 8 == 0) {
          (void)sampler.sample(7, {.draws = draws, .timeout = 0ns});
        }
        if (number % 1'000 == 0) {
          ASSERT_TRUE(invariants_hold(line.replay));
        }
      }
      EXPECT_EQ(line.replay.size(), 300U);
      EXPECT_EQ(line.replay.stats().writers_for_chunk.timeouts, 0U);
    }
  }
}

/// The worst case for memory. Items are drawn from young to old, less than a chunk at a time, so
/// that each chunk is exhausted just after the one that is being emptied. Episodes are so short
/// that a chunk holds few steps.
TEST(ExhaustedItems, ThatGrowFromYoungToOldLeaveWritersAChunk) {
  struct {
    std::size_t capacity, chunk_steps, batch, per_batch;
  } const cases[] = {{400, 33, 3, 1}, {80, 9, 3, 1}, {80, 9, 7, 3}};
  for (const auto& of : cases) {
    SCOPED_TRACE(testing::Message() << "capacity " << of.capacity << ", batch " << of.batch);
    NumberedBuffer line(SmallOptions{.capacity_steps = of.capacity,
                                     .selectors = {Lifo{}},
                                     .max_times_sampled = 1,
                                     .max_writers = 1,
                                     .chunk_steps = of.chunk_steps});
    Writer writer = line.replay.writer({.timeout = 2s});
    Sampler sampler = line.replay.sampler();
    std::uint64_t number = 0;
    for (; number < of.capacity; ++number) {
      ASSERT_EQ(line.append(writer, number, End::Terminated), CommitStatus::Committed);
    }
    for (; number < 6 * of.capacity; ++number) {
      ASSERT_EQ(line.append(writer, number, End::Terminated), CommitStatus::Committed)
          << "step " << number;
      if (number % of.per_batch == 0) {
        (void)sampler.sample(of.batch, kNoWait);
      }
    }
    EXPECT_TRUE(invariants_hold(line.replay));
  }
}

/// One item has draws left, but fewer than the batch needs, so the call waits.
TEST(ExhaustedItems, ABatchWaitsForItemsThatMayBeDrawnOftenEnough) {
  NumberedBuffer line(SmallOptions{.max_times_sampled = 3});
  line.append_many(0, 3);
  Sampler sampler = line.replay.sampler();
  ASSERT_TRUE(sampler.sample(1, kNoWait));
  ASSERT_TRUE(sampler.sample(1, kNoWait));
  const SampleResult nothing = sampler.sample(8, kNoWait);
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.status().code, SampleStatus::Code::TimedOut);
  EXPECT_EQ(nothing.status().items, 3U);
  EXPECT_EQ(nothing.status().possible, 7U);
  EXPECT_EQ(nothing.status().message(),
            "timed out after 0 ms: 7 of the 8 draws of this batch can be made; each item may be "
            "drawn max_times_sampled times");
  std::jthread append([&] {
    yield_while([&] { return line.replay.stats().samplers_for_items.waiting_now == 0; });
    line.append(3);
  });
  ASSERT_TRUE(sampler.sample(8));
  EXPECT_EQ(sampler.sample(3, kNoWait).status().possible, 2U);
  EXPECT_TRUE(sampler.sample(2, kNoWait));
}

}  // namespace
}  // namespace reprise::test
