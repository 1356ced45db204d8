#include "buffer/buffer_core.hpp"
#include "testing/faults/lock_holder.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/test.hpp"
#include "writer/writer_core.hpp"

// Most of these buffers allow a million draws of each item, so that drawn items stay in the queue;
// stack_test.cpp tests queues whose items leave with their first draw.
namespace reprise::test {
namespace {

constexpr std::size_t kSize = 64;
constexpr std::size_t kBlock = 4;  ///< Inserts that a writer books at a time: 64 / (2 * 8 writers).

Options queue_options(std::size_t size = kSize) {
  return SmallOptions{
      .capacity_steps = 1000, .max_times_sampled = 1'000'000, .rate_limiter = Queue{size}};
}

TEST(QueueLimiter, HoldsASamplerUntilTheItemsOfItsBatchWait) {
  NumberedBuffer line(queue_options());
  Sampler sampler = line.replay.sampler();
  for (std::uint64_t number = 0; number < 20; ++number) {
    EXPECT_EQ(static_cast<bool>(sampler.sample(8, kNoWait)), number >= 8) << number;
    line.append(number);
  }
  NumberedBuffer other(queue_options());
  other.append_many(0, 2);
  const SampleStatus status =
      as_lvalue(other.replay.sampler()).sample(8, {.timeout = 2ms}).status();
  EXPECT_EQ(status.code, SampleStatus::Code::TimedOut);
  EXPECT_EQ(status.items, 2U);
  EXPECT_EQ(status.needed, 8U);
  EXPECT_TRUE(status.held_by_queue);
  EXPECT_FALSE(status.held_by_ratio);
  EXPECT_NE(status.message().find("2 of the 8 items that this batch needs are there"),
            std::string::npos)
      << status.message();
  const Stats stats = other.replay.stats();
  EXPECT_EQ(stats.samplers_for_items.timeouts, 1U);
  EXPECT_GE(stats.samplers_for_items.total, 2ms);
  EXPECT_EQ(stats.limiter, "2 items wait to be sampled, of 64 allowed");
}

TEST(QueueLimiter, HoldsAWriterOnceAsManyItemsWaitAsTheSizeOfTheQueue) {
  for (const std::size_t shards : {1U, 3U}) {
    Options options = queue_options();
    options.shards = shards;
    NumberedBuffer line(options);
    Writer writer = line.replay.writer({.timeout = 2ms});
    EXPECT_EQ(line.append_until_held(writer), kSize) << "a single writer does not overshoot";
    EXPECT_EQ(line.replay.size(), kSize);
    const Stats stats = line.replay.stats();
    EXPECT_EQ(stats.writers_for_limiter.timeouts, 1U);
    EXPECT_EQ(stats.limiter, "64 items wait to be sampled, of 64 allowed");
    EXPECT_TRUE(as_lvalue(line.replay.sampler()).sample(kSize, kNoWait));
    EXPECT_EQ(writer.commit(), CommitStatus::TimedOut)
        << "the drawn items may be drawn again, so they still wait";
    expect_steps_add_up(line.replay);
  }
}

TEST(QueueLimiter, OvershootsByAtMostABlockForEachOtherWriter) {
  const std::size_t rounds = scaled(60, 6);
  for (std::size_t round = 0; round < rounds; ++round) {
    constexpr std::size_t kWriters = 8;
    Options options = queue_options();
    options.shards = 1 + round % 3;
    NumberedBuffer line(options);
    std::vector<std::jthread> threads;
    start(threads, kWriters, [&] {
      Writer writer = line.replay.writer({.timeout = 5ms});
      line.append_until_held(writer);
    });
    threads.clear();
    ASSERT_GE(line.replay.size(), kSize) << "a writer was held although there was room";
    ASSERT_LE(line.replay.size(), kSize + (kWriters - 1) * kBlock);
  }
}

/// Nobody can ingest steps while their shard is locked, so the number of waiting items is unknown.
/// The limiter must not take it for 0.
TEST(QueueLimiter, HoldsAWriterAtTheSameStepWhileTheShardIsLocked) {
  Schema schema;
  [[maybe_unused]] const auto reward = schema.reward("reward");
  Options options = queue_options();
  options.chunk_steps = 500;
  const auto core = std::make_shared<buffer::BufferCore>(schema, options);
  writer::WriterCore writer(core, core->slots().take().value_or(0), {.timeout = 0ns});
  writer.begin_episode();
  std::size_t committed = 0;
  const auto append = [&] {
    while (committed < 500 && writer.commit(End::Continue, {}) == CommitStatus::Committed) {
      ++committed;
    }
  };
  {
    LockHolder holder(core->shards()[0].mutex);
    append();
    EXPECT_EQ(committed, kSize);
    EXPECT_EQ(core->limiter_items(), 0U) << "nobody has ingested anything";
  }
  append();
  EXPECT_EQ(committed, kSize) << "after the writer has ingested and counted its steps";
}

/// The shard with the exhausted items is locked, so the buffer asks the other shard to evict. That
/// shard must not evict items that wait in the queue.
TEST(QueueLimiter, LosesNoWaitingItemWhileTheShardOfDrawnItemsIsLocked) {
  Options options = queue_options(40);
  // The capacity holds the queue of 40 items and a block of 2 inserts for each of 8 writers.
  options.capacity_steps = 64;
  options.window = Transitions{};
  options.selectors = {Fifo{}};
  options.max_times_sampled = 1;
  options.shards = 2;
  options.chunk_steps = 64;
  NumberedBuffer line(options);
  Sampler sampler = line.replay.sampler();
  line.append_many(0, 28);
  ASSERT_TRUE(sampler.sample(28, kNoWait));
  line.append_many(28, 28);
  ASSERT_TRUE(sampler.sample(28, kNoWait));
  line.append_many(56, 40);  // Most of these items are in the other shard.
  buffer::ShardSet& shards = core_of(line.replay)->shards();
  const std::size_t exhausted = shards[0].hints().chunks() != 0 ? 0 : 1;
  {
    const LockHolder holder(shards[exhausted].mutex);
    shards.help_ingest(1 - exhausted);
  }
  const SampleResult rest = require_batch(sampler.sample(40, kNoWait));
  for (std::uint64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(rest->now(line.id)[i], 56 + i);
  }
}

}  // namespace
}  // namespace reprise::test
