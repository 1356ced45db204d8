#include "testing/test.hpp"

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

}  // namespace
}  // namespace reprise::test
