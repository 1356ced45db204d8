#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace reprise::test {
namespace {

constexpr std::size_t kCapacities[] = {1,  2,  3,  5,  7,  8,   9,   15,  16,  17,  31,
                                       33, 63, 64, 65, 99, 100, 127, 128, 129, 1000};

Options fifo_options(std::size_t capacity, std::size_t chunk, std::size_t shards) {
  return Small{.capacity_steps = capacity, .chunk_steps = chunk, .shards = shards};
}

TEST(Eviction, OfOneWriterInOneShardIsFirstInFirstOut) {
  for (const std::size_t capacity : kCapacities) {
    for (const std::size_t chunk : {2UL, 5UL, 64UL}) {
      SCOPED_TRACE(testing::Message() << "capacity " << capacity << ", chunk " << chunk);
      Line line(fifo_options(capacity, chunk, 1));
      for (std::uint64_t number = 0; number < 2 * capacity + 70; ++number) {
        line.append(number, number % 11 == 10 ? End::Terminated : End::Continue);
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
    line.append_many(0, 5000);
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
