#include "storage/doorbell.hpp"

#include "hooked_sync.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace reprise::storage {
namespace {

using Chunks = std::vector<std::uint32_t>;

template <class Sync>
struct World {
  explicit World(std::size_t chunks) : bells(chunks) {}

  auto bell() {
    return [this](std::uint32_t chunk) -> auto& {
      return bells[chunk];
    };
  }
  bool ring(std::uint32_t chunk, std::uint32_t value = kRung) {
    return list.ring(chunk, value, bell());
  }
  Chunks answer_all() {
    Chunks chunks;
    while (!backlog.empty()) {
      chunks.push_back(backlog.answer_oldest(bell()).chunk);
    }
    return chunks;
  }

  std::vector<Bell<Sync>> bells;
  DoorbellList<Sync> list;
  Backlog<Sync> backlog;
};

using Plain = World<base::StdSync>;
using Hooked = World<HookedSync>;

TEST(Backlog, IsEmptyAtFirstAndAfterAnEmptyList) {
  Plain world(1);
  EXPECT_TRUE(world.backlog.empty());
  world.backlog.take(world.list, world.bell());
  EXPECT_TRUE(world.backlog.empty());
}

TEST(Backlog, AnswersInTheOrderInWhichTheBellsRang) {
  Plain world(4);
  for (const std::uint32_t chunk : {2U, 0U, 3U}) {
    world.ring(chunk);
  }
  world.backlog.take(world.list, world.bell());
  EXPECT_EQ(world.answer_all(), (Chunks{2, 0, 3}));
}

TEST(Backlog, LaterBellsComeBehindWhatIsLeft) {
  Plain world(5);
  world.ring(0);
  world.ring(1);
  world.ring(2);
  world.backlog.take(world.list, world.bell());
  EXPECT_EQ(world.backlog.answer_oldest(world.bell()).chunk, 0U);
  world.ring(4);
  world.ring(3);
  EXPECT_FALSE(world.ring(2)) << "in the backlog, so not in the list again";
  world.backlog.take(world.list, world.bell());
  EXPECT_EQ(world.answer_all(), (Chunks{1, 2, 4, 3}));
}

TEST(Backlog, ABacklogThatRanEmptyStartsAnew) {
  Plain world(2);
  for (int i = 0; i < 3; ++i) {
    world.ring(1);
    world.ring(0);
    world.backlog.take(world.list, world.bell());
    EXPECT_EQ(world.answer_all(), (Chunks{1, 0}));
  }
}

TEST(Backlog, TellsWhatTheBellSays) {
  Plain world(1);
  publish(world.bells[0], 5);
  world.ring(0, kRung | kClosed);
  world.backlog.take(world.list, world.bell());
  const News news = world.backlog.answer_oldest(world.bell());
  EXPECT_EQ(news.chunk, 0U);
  EXPECT_EQ(news.published, 5U);
  EXPECT_TRUE(news.closed);
}

TEST(Backlog, AChunkPushedAgainRightAfterItsAnswerLosesNothingBehindIt) {
  Hooked world(2);
  world.ring(0);
  world.ring(1);
  world.backlog.take(world.list, world.bell());
  // The load of published follows the exchange that clears the bell.
  HookedSync::before_next(HookedSync::Access::Load, [&] { EXPECT_TRUE(world.ring(0)); });
  EXPECT_EQ(world.backlog.answer_oldest(world.bell()).chunk, 0U);
  EXPECT_FALSE(HookedSync::pending(HookedSync::Access::Load));
  EXPECT_EQ(world.answer_all(), Chunks{1});
  world.backlog.take(world.list, world.bell());
  EXPECT_EQ(world.answer_all(), Chunks{0});
}

}  // namespace
}  // namespace reprise::storage
