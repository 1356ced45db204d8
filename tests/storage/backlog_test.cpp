#include "hooked_sync.hpp"
#include "storage/doorbell.hpp"
#include "testing/test.hpp"

namespace reprise::storage {
namespace {

using Chunks = std::vector<std::uint32_t>;

struct World {
  explicit World(std::size_t chunks) : bells(chunks) {}

  auto bell() {
    return [this](std::uint32_t chunk) -> auto& {
      return bells[chunk];
    };
  }
  bool ring(std::uint32_t chunk) { return list.ring(chunk, kRung, bell()); }
  Chunks answer_all() {
    Chunks chunks;
    while (!backlog.empty()) {
      chunks.push_back(backlog.answer_oldest(bell()).chunk);
    }
    return chunks;
  }

  std::vector<Bell<HookedSync>> bells;
  DoorbellList<HookedSync> list;
  Backlog<HookedSync> backlog;
};

TEST(Backlog, AChunkPushedAgainRightAfterItsAnswerLosesNothingBehindIt) {
  World world(2);
  world.ring(0);
  world.ring(1);
  world.backlog.take(world.list, world.bell());
  // `answer_oldest` loads `published` after the exchange that clears the bell. Chunk 0 rings again
  // just before that load.
  HookedSync::before_next(HookedSync::Access::Load, [&] { EXPECT_TRUE(world.ring(0)); });
  EXPECT_EQ(world.backlog.answer_oldest(world.bell()).chunk, 0U);
  EXPECT_FALSE(HookedSync::pending(HookedSync::Access::Load));
  EXPECT_EQ(world.answer_all(), Chunks{1});
  world.backlog.take(world.list, world.bell());
  EXPECT_EQ(world.answer_all(), Chunks{0});
}

}  // namespace
}  // namespace reprise::storage
