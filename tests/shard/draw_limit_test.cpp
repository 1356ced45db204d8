#include <reprise/removers/second_chance.hpp>

#include "shard_world.hpp"
#include "testing/test.hpp"

// Tests which steps leave first if items have a draw limit. The front of a chunk are the steps
// before its first item that may be drawn again. A chunk that has lost some of its steps is
// partial.

namespace reprise::shard {
namespace {

using Places = std::set<Place>;
constexpr float kWithoutItem = storage::kStepWithoutItem;

WorldOptions limited(const WorldOptions& of) {
  WorldOptions options = of;
  options.max_times_sampled = 1;
  return options;
}

/// Adds one step in a chunk of its own, which stays open.
std::uint32_t add_one(ShardWorld& world, std::size_t s = 0) {
  const std::uint32_t chunk = world.take(s);
  world.append(chunk, {1.0F});
  world.ingest(s);
  return chunk;
}

TEST(DrawLimit, CountsWhatMayBeDrawnAndHowOften) {
  ShardWorld world({.max_times_sampled = 3});
  const std::uint32_t chunk = world.add_closed({1.0F, kWithoutItem, 1.0F, ShardWorld::kNotAStep});
  world.ingest();
  EXPECT_EQ(world.shard().hints().items(), 2U);
  EXPECT_EQ(world.shard().hints().draws_left(), 6U);
  world.count_draws(chunk, {0, 0, 2});
  EXPECT_EQ(world.shard().hints().items(), 2U);
  EXPECT_EQ(world.shard().hints().draws_left(), 3U);
  world.count_draws(chunk, {0});
  EXPECT_EQ(world.shard().hints().items(), 1U);
  EXPECT_EQ(world.shard().hints().draws_left(), 2U);
  EXPECT_EQ(world.total(ShardWorld::kByPriority), 1.0) << "an exhausted item weighs nothing";
  EXPECT_TRUE(world.invariants_hold());
}

TEST(DrawLimit, CountsTheDrawsThatAreLoaded) {
  storage::ChunkStore store(1, 4, 16);
  const ChunkQueue queue(0, 1);
  Budget budget(8);
  Selection selection(store, {}, 4);
  DrawLimit limit(store, queue, budget, selection, /*first_chunk=*/0, /*times=*/3,
                  /*max_partial=*/4);
  ShardImage image(/*chunk_count=*/1, /*rows=*/4, /*selectors=*/0, /*draws_limited=*/true);
  image.draws[0] = 2;
  image.draws[1] = 7;  // A count above the limit counts as the limit.
  limit.restore(std::vector<std::uint32_t>{0, 1}, image, 0);
  EXPECT_EQ(limit.draws_left(4), 12U - 5U);
}

TEST(DrawLimit, AnExhaustedFrontLeavesBeforeOlderItemsThatMayBeDrawn) {
  ShardWorld world(limited({.chunks = 8, .capacity = 8}));
  const std::uint32_t old = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F});
  const std::uint32_t young = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F});
  world.ingest();
  world.count_draws(young, {0, 1, 3});
  for (int i = 0; i < 2; ++i) {
    add_one(world);
  }
  EXPECT_EQ(world.counters().evicted_steps, 2U);
  EXPECT_EQ(world.items().count({old, 0}), 1U);
  EXPECT_EQ(world.shard().hints().items(), 7U) << "only exhausted items have left";
  EXPECT_TRUE(world.invariants_hold());
  add_one(world);
  EXPECT_EQ(world.items().count({old, 0}), 0U) << "other steps leave by age";
  EXPECT_TRUE(world.invariants_hold());
}

TEST(DrawLimit, StepsWithoutAnItemLeaveWithTheFront) {
  ShardWorld world(limited({.chunks = 8, .rows = 5, .capacity = 10}));
  const std::uint32_t old = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F, 1.0F});
  const std::uint32_t young = world.add_closed({kWithoutItem, 1.0F, kWithoutItem, 1.0F, 1.0F});
  world.ingest();
  world.count_draws(young, {1});
  for (int i = 0; i < 2; ++i) {
    add_one(world);
  }
  EXPECT_EQ(world.counters().evicted_steps, 2U);
  EXPECT_EQ(world.items().count({old, 0}), 1U);
  EXPECT_EQ(world.items().count({young, 3}), 1U);
  EXPECT_TRUE(world.invariants_hold());
}

TEST(DrawLimit, AnItemExhaustedBehindTheFrontMakesStepsBeforeItLeaveFirst) {
  ShardWorld world(limited({.chunks = 8, .capacity = 8}));
  const std::uint32_t old = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F});
  const std::uint32_t young = world.add_closed({kWithoutItem, 1.0F, 1.0F, 1.0F});
  world.ingest();
  world.count_draws(young, {2});
  EXPECT_TRUE(world.invariants_hold());
  add_one(world);
  EXPECT_EQ(world.items().count({old, 0}), 1U) << "a step without an item left";
  add_one(world);
  EXPECT_EQ(world.items().count({old, 0}), 0U);
  EXPECT_TRUE(world.invariants_hold());
}

/// An emptied open chunk would become a partial chunk, so it must not be emptied as a whole one.
TEST(DrawLimit, AnOpenChunkThatIsAllExhaustedIsNoWholeChunk) {
  ShardWorld world(limited({.chunks = 8, .capacity = 9, .max_partial = 1}));
  const std::uint32_t first = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F});
  const std::uint32_t second = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F});
  world.ingest();
  const std::uint32_t open = add_one(world);
  world.count_draws(second, {0});
  add_one(world);
  world.count_draws(open, {0});
  add_one(world);
  EXPECT_EQ(world.items().count({first, 0}), 0U) << "one chunk is partial already";
  EXPECT_TRUE(world.invariants_hold());
}

TEST(DrawLimit, AFilledChunkThatIsAllExhaustedLeavesFirst) {
  ShardWorld world(limited({.chunks = 8, .capacity = 12}));
  const std::uint32_t old = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F});
  const std::uint32_t young = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F});
  world.ingest();
  world.count_draws(old, {0});
  world.count_draws(young, {2, 1, 0, 3});
  world.add_closed({1.0F, 1.0F, 1.0F, 1.0F});
  const std::uint32_t fourth = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F});
  world.ingest();
  EXPECT_EQ(world.counters().evicted_steps, 4U);
  EXPECT_EQ(world.take(), young) << "its memory is free";
  EXPECT_EQ(world.shard().hints().items(), 11U);
  world.count_draws(fourth, {0});
  add_one(world);
  EXPECT_EQ(world.items().count({old, 1}), 1U);
  EXPECT_TRUE(world.invariants_hold());
}

/// The number of partial chunks is limited, because they hold memory for steps that have left.
TEST(DrawLimit, NoMoreChunksThanAllowedLoseOnlyTheirFront) {
  ShardWorld world(limited({.chunks = 8, .capacity = 12, .max_partial = 1}));
  const std::uint32_t first = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F});
  const std::uint32_t second = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F});
  const std::uint32_t third = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F});
  world.ingest();
  world.count_draws(second, {0});
  world.count_draws(third, {0});
  add_one(world);
  EXPECT_EQ(world.shard().hints().items(), 11U) << "the front of the second has left";
  add_one(world);
  EXPECT_EQ(world.items().count({first, 0}), 0U) << "the oldest is broken into, which frees it";
  EXPECT_EQ(world.shard().hints().items(), 11U) << "the third chunk is left whole";
  world.count_draws(second, {1});
  add_one(world);
  EXPECT_EQ(world.items().count({first, 1}), 1U);
  EXPECT_EQ(world.shard().hints().items(), 11U) << "a partial chunk may lose more steps";
  EXPECT_TRUE(world.invariants_hold());
}

TEST(DrawLimit, AShardLeavesTheExcessToAnotherThatHasAnExhaustedFront) {
  ShardWorld world(limited({.shards = 2, .chunks = 8, .capacity = 8}));
  world.add_closed({1.0F, 1.0F, 1.0F, 1.0F}, 0);
  const std::uint32_t other = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F}, 1);
  world.ingest(0);
  world.ingest(1);
  world.count_draws(other, {0});
  add_one(world, 0);
  EXPECT_EQ(world.counters(0).evicted_steps, 0U) << "over its share, but all its items are fresh";
  EXPECT_TRUE(world.budget.exceeded());
  world.ingest(1);
  EXPECT_EQ(world.counters(1).evicted_steps, 1U) << "below its share";
  EXPECT_FALSE(world.budget.exceeded());
  add_one(world, 0);
  EXPECT_EQ(world.counters(0).evicted_steps, 1U) << "nothing is exhausted any more";
  EXPECT_TRUE(world.invariants_hold());
}

TEST(DrawLimit, AShardWhoseExhaustedItemsLieBehindOthersLeavesTheExcessToAFrontInAnotherShard) {
  ShardWorld world(limited({.shards = 2, .chunks = 8, .capacity = 8}));
  const std::uint32_t own = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F}, 0);
  const std::uint32_t other = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F}, 1);
  world.ingest(0);
  world.ingest(1);
  world.count_draws(own, {2});
  world.count_draws(other, {0});
  add_one(world, 0);
  EXPECT_EQ(world.counters(0).evicted_steps, 0U);
  world.ingest(1);
  EXPECT_EQ(world.counters(1).evicted_steps, 1U);
  EXPECT_TRUE(world.invariants_hold());
}

TEST(DrawLimit, TheShardWithTheLargestPartOfTheExhaustedItemsEvictsForARemoverWhereNoFrontIs) {
  ShardWorld world(limited({.shards = 2, .chunks = 8, .capacity = 8, .remover = SecondChance{}}));
  const std::uint32_t own = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F}, 0);
  const std::uint32_t other = world.add_closed({1.0F, 1.0F, 1.0F, 1.0F}, 1);
  world.ingest(0);
  world.ingest(1);
  world.count_draws(own, {2});
  world.count_draws(other, {1, 2});
  add_one(world, 0);
  EXPECT_EQ(world.counters(0).evicted_steps, 0U);
  world.ingest(1);
  EXPECT_EQ(world.counters(1).evicted_steps, 1U) << "its oldest, which frees the way";
  add_one(world, 0);
  world.ingest(1);
  EXPECT_EQ(world.counters(1).evicted_steps, 2U);
  EXPECT_TRUE(world.invariants_hold());
}

}  // namespace
}  // namespace reprise::shard
