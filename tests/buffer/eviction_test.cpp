#include <reprise/reprise.hpp>

#include "../support/line.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace reprise::test {
namespace {

constexpr std::size_t kCapacities[] = {1,  2,  3,  5,  7,  8,   9,   15,  16,  17,  31,
                                       33, 63, 64, 65, 99, 100, 127, 128, 129, 1000};

Options fifo_options(std::size_t capacity, std::size_t chunk, std::size_t shards) {
  Options options = small_options();
  options.capacity_steps = capacity;
  options.chunk_steps = chunk;
  options.shards = shards;
  return options;
}

TEST(Eviction, OfAFullBufferLeavesExactlyTheCapacityWhateverChunksAndShards) {
  for (const std::size_t capacity : kCapacities) {
    for (const std::size_t chunk : {0UL, 2UL, 3UL, 8UL, 61UL}) {
      for (std::size_t shards = 1; shards <= std::min<std::size_t>(4, capacity); ++shards) {
        SCOPED_TRACE(testing::Message()
                     << "capacity " << capacity << ", chunk " << chunk << ", shards " << shards);
        Line line(fifo_options(capacity, chunk, shards));
        Writer writer = line.replay.writer();
        const std::size_t steps = 3 * capacity + 200;
        for (std::uint64_t number = 0; number < steps; ++number) {
          ASSERT_EQ(line.append(writer, number, number % 37 == 36 ? End::Truncated : End::Continue),
                    CommitStatus::Committed);
          if (number < 50 || number % 29 == 0) {
            ASSERT_EQ(line.replay.size(), std::min<std::size_t>(number + 1, capacity));
          }
        }
        ASSERT_EQ(line.replay.size(), capacity);
        const Stats stats = line.replay.stats();
        EXPECT_EQ(stats.evicted_steps, steps - capacity);
        EXPECT_EQ(stats.pending_steps, 0U);
        expect_accounted(line.replay);
        const auto numbers = line.numbers();
        ASSERT_EQ(numbers.size(), capacity);
      }
    }
  }
}

TEST(Eviction, OfOneWriterInOneShardIsFirstInFirstOut) {
  for (const std::size_t capacity : kCapacities) {
    for (const std::size_t chunk : {2UL, 5UL, 64UL}) {
      SCOPED_TRACE(testing::Message() << "capacity " << capacity << ", chunk " << chunk);
      Line line(fifo_options(capacity, chunk, 1));
      Writer writer = line.replay.writer();
      for (std::uint64_t number = 0; number < 2 * capacity + 70; ++number) {
        line.append(writer, number, number % 11 == 10 ? End::Terminated : End::Continue);
        if (number % 13 == 0 || number == 2 * capacity + 69) {
          const std::uint64_t first = number + 1 > capacity ? number + 1 - capacity : 0;
          ASSERT_EQ(line.numbers(), numbers_between(first, number + 1));
        }
      }
    }
  }
}

TEST(Eviction, WithoutAnyReadingKeepsTheNewestSteps) {
  // Nobody ingests until the end: the writer makes room for itself.
  for (const std::size_t shards : {1U, 3U}) {
    Line line(fifo_options(50, 8, shards));
    Writer writer = line.replay.writer();
    line.append_many(writer, 0, 5000);
    EXPECT_EQ(line.replay.size(), 50U);
    expect_accounted(line.replay);
    const auto numbers = line.numbers();
    ASSERT_EQ(numbers.size(), 50U);
    if (shards == 1) {
      EXPECT_EQ(numbers, numbers_between(4950, 5000));
    } else {
      // Shards leave room in turn: the order is right to within a chunk per shard.
      EXPECT_GE(numbers.front(), 4950U - 8 * shards);
    }
  }
}

TEST(Eviction, KeepsExactlyTheCapacityWithManyWritersThatComeAndGo) {
  for (std::uint64_t seed = 1; seed <= scaled(30, 4); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const std::size_t capacity = rng.between(1, 400);
    const std::size_t shards = rng.between(1, std::min<std::size_t>(4, capacity));
    Line line(fifo_options(capacity, rng.between(2, 24), shards));
    std::optional<Writer> writers[8];
    std::uint64_t committed = 0;
    for (int i = 0; i < 4000; ++i) {
      std::optional<Writer>& writer = writers[rng.below(8)];
      if (rng.chance(0.02)) {
        writer.reset();
      } else {
        if (!writer) {
          writer.emplace(line.replay.writer());
        }
        ASSERT_EQ(
            line.append(*writer, committed++, rng.chance(0.1) ? End::Truncated : End::Continue),
            CommitStatus::Committed);
      }
      if (rng.chance(0.1)) {
        ASSERT_EQ(line.replay.size(), std::min<std::size_t>(committed, capacity));
        expect_accounted(line.replay);
      }
    }
    ASSERT_EQ(line.replay.size(), std::min<std::size_t>(committed, capacity));
    EXPECT_EQ(line.numbers().size(), line.replay.size());
  }
}

TEST(Eviction, DropsItemsOneByOneAndKeysWithThem) {
  Line line(fifo_options(10, 4, 1));
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 10);
  const auto keys = line.keys();
  const float priority = 1.0F;
  for (std::uint64_t gone = 1; gone <= 10; ++gone) {
    line.append(writer, 9 + gone);
    for (const auto& [number, key] : keys) {
      const auto result =
          line.replay.update_priorities(std::span(&key, 1), std::span(&priority, 1));
      ASSERT_EQ(result.stale, number < gone ? 1U : 0U) << "item " << number << " after " << gone;
      ASSERT_EQ(result.applied, number < gone ? 0U : 1U);
    }
  }
}

TEST(Eviction, OpenChunksOfIdleWritersDoNotKeepOthersFromUsingTheCapacity) {
  // Seven writers write one step each and then sleep on their chunks; the eighth goes on.
  Line line(fifo_options(20, 8, 1));
  std::vector<Writer> idle;
  for (std::uint64_t w = 0; w < 7; ++w) {
    idle.push_back(line.replay.writer());
    line.append(idle.back(), 1000 + w);
  }
  Writer writer = line.replay.writer();
  for (std::uint64_t number = 0; number < 3000; ++number) {
    ASSERT_EQ(line.append(writer, number), CommitStatus::Committed);
  }
  EXPECT_EQ(line.replay.size(), 20U);
  EXPECT_EQ(line.numbers(), numbers_between(2980, 3000));
  // The sleepers wake up on chunks whose old items are gone.
  for (std::uint64_t w = 0; w < 7; ++w) {
    for (std::uint64_t t = 0; t < 20; ++t) {
      ASSERT_EQ(line.append(idle[w], 5000 + 20 * w + t), CommitStatus::Committed);
    }
  }
  EXPECT_EQ(line.replay.size(), 20U);
  expect_accounted(line.replay);
}

}  // namespace
}  // namespace reprise::test
