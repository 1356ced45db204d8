#include "shard_world.hpp"
#include "testing/test.hpp"

// Tests of what shard_model_test.cpp cannot show.
namespace reprise::shard {
namespace {

TEST(Shard, OnePinServesARunOfDrawsInOneChunk) {
  ShardWorld world({.rows = 2, .capacity = 100});
  world.append(world.take(), {1.0F, 1.0F});
  world.append(world.take(), {2.0F});
  world.ingest();
  const ShardWorld::Draw draw = world.draw(ShardWorld::kByPriority, 4);
  EXPECT_EQ(draw.pinned, (std::vector<std::uint32_t>{0, 1}));
}

TEST(Shard, PinsNothingForADrawWithoutRows) {
  ShardWorld world({.rows = 2, .capacity = 2});
  const std::uint32_t chunk = world.add_closed({1.0F, 1.0F}, 0);
  world.ingest();
  const ShardWorld::Draw draw = world.draw(ShardWorld::kByPriority, 2, 0, ShardWorld::Pins::None);
  EXPECT_TRUE(draw.pinned.empty());
  EXPECT_EQ(draw.places[1].chunk, chunk);
  world.add_closed({1.0F, 1.0F}, 0);
  world.ingest();
  EXPECT_EQ(world.counters(0).evicted_steps, 2U);
  EXPECT_EQ(world.counters(0).retired_pinned, 0U);
}

TEST(Shard, EvictsYoungerStepsWhileTheShardsWithOlderOnesAreBusy) {
  ShardWorld world({.shards = 2, .chunks = 8, .rows = 2, .capacity = 2});
  world.add_closed({1.0F, 1.0F}, 0);
  world.ingest(0);
  for (int i = 0; i < 4; ++i) {  // After these turns, new chunks are not among the oldest.
    static_cast<void>(world.budget.turn_after(storage::kNoTurn));
  }
  world.add_closed({1.0F, 1.0F}, 1);
  world.ingest(1);
  EXPECT_EQ(world.counters(1).evicted_steps, 0U);
  world.evict_though_others_are_busy(1);
  EXPECT_EQ(world.counters(1).evicted_steps, 2U);
  EXPECT_TRUE(world.invariants_hold());
}

TEST(Shard, GenerationsGoRoundAndKeysStayAlive) {
  ShardWorld world({.chunks = 1});
  for (std::uint32_t generation = 0; generation <= ItemKey::kGenerationMask; ++generation) {
    ASSERT_EQ(world.take(), 0U);
    world.ring(0, Ring::Closing);
    world.ingest();
  }
  world.append(world.take(), {1.0F});
  world.ingest();
  const std::vector<ItemKey> keys = world.keys();
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_EQ(keys[0].generation(), 0U);
  EXPECT_EQ(world.update(keys, 2.0F), 1U);
}

}  // namespace
}  // namespace reprise::shard
