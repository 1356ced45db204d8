#include <reprise/removers/second_chance.hpp>

#include "shard_world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace reprise::shard {
namespace {

using Places = std::set<Place>;
using storage::kNil;
constexpr float kMark = ShardWorld::kMark;

/// So many that what comes now is not among the oldest.
void pass_turns(ShardWorld& world) {
  for (int i = 0; i < 4; ++i) {
    static_cast<void>(world.budget.turn_after(storage::kNoTurn));
  }
}

TEST(ShardEvict, ItemsLeaveOneByOneOldestFirst) {
  ShardWorld world({.rows = 8, .capacity = 3});
  const std::uint32_t chunk = world.take();
  for (std::uint32_t row = 0; row < 8; ++row) {
    world.append(chunk, {1.0F});
    world.ingest();
    EXPECT_EQ(world.counters().evicted_steps, row < 3 ? 0 : row - 2);
    EXPECT_EQ(world.items().rbegin()->second, row);
    EXPECT_EQ(world.items().begin()->second, row < 3 ? 0 : row - 2);
    EXPECT_EQ(world.budget.resident(), std::min(row + 1, 3U));
    EXPECT_TRUE(world.invariants_hold());
  }
}

TEST(ShardEvict, ContextBetweenItemsIsNotCounted) {
  ShardWorld world({.rows = 8, .capacity = 2});
  world.append(world.take(), {kMark, 1.0F, kMark, kMark, 1.0F, 1.0F, kMark, 1.0F});
  world.ingest();
  EXPECT_EQ(world.items(), (Places{{0, 5}, {0, 7}}));
  EXPECT_EQ(world.counters().evicted_steps, 2U);
  EXPECT_TRUE(world.invariants_hold());
}

TEST(ShardEvict, ItemsOfAllSelectorsLeaveTogether) {
  ShardWorld world({.capacity = 1});
  world.append(world.take(), {8.0F, 4.0F});
  world.ingest();
  EXPECT_EQ(world.total(ShardWorld::kByPriority), 4.0);
  EXPECT_EQ(world.total(ShardWorld::kUniform), 1.0);
}

TEST(ShardEvict, ChunksGoInTheOrderOfTheirFirstItems) {
  ShardWorld world({.capacity = 3});
  const std::uint32_t first = world.take();
  const std::uint32_t second = world.take();
  world.append(second, {1.0F});
  world.append(first, {1.0F});
  world.ingest();
  world.append(second, {1.0F});
  world.append(first, {1.0F});
  world.ingest();
  EXPECT_EQ(world.items(), (Places{{first, 0}, {first, 1}, {second, 1}}));
}

TEST(ShardEvict, AShardWithinItsShareGivesNothingToARemoverWhileAnotherIsOverIts) {
  ShardWorld world({.shards = 2, .rows = 8, .capacity = 8, .remover = SecondChance{}});
  const std::uint32_t large = world.take(0);
  world.append(large, {1, 1, 1, 1, 1, 1, 1});
  world.ingest(0);
  EXPECT_EQ(world.counters(0).evicted_steps, 0U) << "over its share, but there is room";
  const std::uint32_t small = world.take(1);
  world.append(small, {1, 1, 1});
  world.ingest(1);
  EXPECT_EQ(world.counters(1).evicted_steps, 0U) << "within its share";
  EXPECT_EQ(world.budget.resident(), 10U);
  world.ingest(0);
  EXPECT_EQ(world.counters(0).evicted_steps, 2U);
  EXPECT_EQ(world.budget.resident(), 8U);
  EXPECT_TRUE(world.invariants_hold());
}

TEST(ShardEvict, ARemoverTakesNoShardBelowItsShare) {
  ShardWorld world({.shards = 2, .rows = 8, .capacity = 6, .remover = SecondChance{}});
  world.append(world.take(0), {1, 1, 1, 1});
  world.append(world.take(1), {1, 1, 1, 1, 1, 1, 1, 1});
  world.ingest(0);
  world.ingest(1);
  EXPECT_EQ(world.items(0).size(), 4U);
  EXPECT_EQ(world.items(1).size(), 3U) << "the last one of the excess is the other's to give";
  EXPECT_EQ(world.budget.resident(), 7U);
  world.ingest(0);
  EXPECT_EQ(world.items(0).size(), 3U);
  EXPECT_EQ(world.budget.resident(), 6U);
}

TEST(ShardEvict, FirstInFirstOutGoesByTheOldestChunksOfAllShards) {
  ShardWorld world({.shards = 2, .chunks = 8, .rows = 2, .capacity = 4});
  world.add_closed({1.0F, 1.0F}, 0);
  world.add_closed({1.0F, 1.0F}, 0);
  world.ingest(0);
  for (int i = 0; i < 4; ++i) {
    world.add_closed({1.0F, 1.0F}, 1);
  }
  world.ingest(1);
  EXPECT_EQ(world.counters(1).evicted_steps, 2U) << "a chunk per shard younger than the oldest";
  EXPECT_TRUE(world.budget.exceeded());
  world.ingest(0);
  EXPECT_EQ(world.counters(0).evicted_steps, 4U) << "though it is within its share";
  world.ingest(1);
  EXPECT_EQ(world.budget.resident(), 4U);
  EXPECT_TRUE(world.invariants_hold());
}

TEST(ShardEvict, AShardWhoseOthersAreBusyEvictsWhatItHas) {
  ShardWorld world({.shards = 2, .chunks = 8, .rows = 2, .capacity = 2});
  world.add_closed({1.0F, 1.0F}, 0);
  world.ingest(0);
  pass_turns(world);
  world.add_closed({1.0F, 1.0F}, 1);
  world.ingest(1);
  EXPECT_EQ(world.counters(1).evicted_steps, 0U);
  world.evict_though_others_are_busy(1);
  EXPECT_EQ(world.counters(1).evicted_steps, 2U);
  EXPECT_TRUE(world.invariants_hold());
}

TEST(ShardEvict, AnOpenChunkThatWasEmptiedIsAsYoungAsItsNextStep) {
  ShardWorld world({.shards = 2, .chunks = 8, .rows = 4, .capacity = 2});
  const std::uint32_t open = world.take(0);
  world.append(open, {1.0F});
  world.ingest(0);
  for (int i = 0; i < 4; ++i) {
    world.add_closed({1.0F, 1.0F}, 1);
    world.ingest(1);
    world.ingest(0);
  }
  EXPECT_EQ(world.items(0).size(), 0U);
  pass_turns(world);
  world.append(open, {1.0F});
  world.ingest(0);
  world.ingest(1);
  EXPECT_EQ(world.items(0).size(), 1U);
  EXPECT_EQ(world.items(1).size(), 1U);
}

TEST(ShardRetire, AClosedChunkWhoseItemsAllLeftIsReused) {
  ShardWorld world({.chunks = 2, .rows = 2, .capacity = 2});
  const std::uint32_t first = world.add_closed({1.0F, 1.0F});
  world.ingest();
  EXPECT_EQ(world.shard().chunks().take_recycled(), kNil);
  world.add_closed({1.0F, kMark});
  world.ingest();
  EXPECT_EQ(world.items(), (Places{{first, 1}, {1, 0}}));
  EXPECT_EQ(world.shard().chunks().take_recycled(), kNil) << "half of it is still there";
  EXPECT_EQ(world.take_fresh(), kNil);
}

TEST(ShardRetire, StartsTheChunkAnewWithAnotherGeneration) {
  ShardWorld world({.chunks = 2, .rows = 2, .capacity = 2});
  const std::uint32_t chunk = world.add_closed({1.0F, 1.0F});
  world.ingest();
  const std::vector<ItemKey> before = world.keys();
  world.add_closed({1.0F, 1.0F});
  world.ingest();
  EXPECT_EQ(world.take(), chunk);
  EXPECT_EQ(world.store.chunk(chunk).cursor, 0U);
  EXPECT_EQ(world.store.chunk(chunk).bell.published.load(base::Order::Relaxed), 0U);
  world.append(chunk, {7.0F, 9.0F}, true);
  world.ingest();
  const std::vector<ItemKey> after = world.keys();
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].slot(), before[i].slot());
    EXPECT_EQ(after[i].generation(), before[i].generation() + 1);
    EXPECT_EQ(after[i].tag(), ShardWorld::kTag);
  }
  EXPECT_EQ(world.update(before, 100.0F), 0U) << "gone, never somebody else's";
  EXPECT_EQ(world.total(ShardWorld::kByPriority), 16.0);
  EXPECT_EQ(world.update(after, 3.0F), 2U);
  EXPECT_EQ(world.total(ShardWorld::kByPriority), 6.0);
}

TEST(ShardRetire, GenerationsGoRoundAndKeysStayAlive) {
  ShardWorld world({.chunks = 1});
  for (std::uint32_t turn = 0; turn <= ItemKey::kGenerationMask; ++turn) {
    ASSERT_EQ(world.take(), 0U);
    world.ring(0, true);
    world.ingest();
  }
  world.append(world.take(), {1.0F});
  world.ingest();
  const std::vector<ItemKey> keys = world.keys();
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_EQ(keys[0].generation(), 0U);
  EXPECT_EQ(world.update(keys, 2.0F), 1U);
}

TEST(ShardRetire, AnOpenChunkWhoseItemsAllLeftLetsOthersGoAndComesBackYoungest) {
  ShardWorld world({.rows = 4, .capacity = 2});
  const std::uint32_t slow = world.take();
  world.append(slow, {1.0F});
  world.ingest();
  const std::uint32_t quick = world.take();
  world.append(quick, {1.0F, 1.0F});
  world.ingest();
  EXPECT_EQ(world.items(), (Places{{quick, 0}, {quick, 1}}));
  EXPECT_TRUE(world.invariants_hold());
  world.append(quick, {1.0F}, true);
  world.ingest();
  EXPECT_EQ(world.items(), (Places{{quick, 1}, {quick, 2}})) << "the slow one is not in the way";
  world.append(slow, {kMark, 1.0F});
  world.ingest();
  EXPECT_EQ(world.items(), (Places{{quick, 2}, {slow, 2}}));
  world.append(slow, {1.0F});
  world.ingest();
  EXPECT_EQ(world.items(), (Places{{slow, 2}, {slow, 3}}));
  EXPECT_EQ(world.take(), quick);
  EXPECT_TRUE(world.invariants_hold());
}

TEST(ShardRetire, AFullChunkWhoseItemsAllLeftWaitsForItsWritersClosingRing) {
  ShardWorld world({.chunks = 2, .rows = 2, .capacity = 1});
  const std::uint32_t full = world.take();
  world.append(full, {1.0F, 1.0F});  // The writer was stopped just before it closes the chunk.
  world.ingest();
  world.append(world.take(), {1.0F});
  world.ingest();
  EXPECT_EQ(world.items(), (Places{{1, 0}}));
  EXPECT_EQ(world.take(), kNil);
  EXPECT_TRUE(world.ring(full, true));
  world.ingest();
  EXPECT_EQ(world.take(), full);
  EXPECT_TRUE(world.invariants_hold());
}

TEST(ShardRetire, AnOpenChunkWithoutItemsIsReclaimedWhenItsWriterLeavesIt) {
  ShardWorld world({.chunks = 2, .rows = 4, .capacity = 1});
  const std::uint32_t slow = world.take();
  world.append(slow, {1.0F});
  world.ingest();
  world.append(world.take(), {1.0F});
  world.ingest();
  EXPECT_EQ(world.take(), kNil);
  world.ring(slow, true);
  world.ingest();
  EXPECT_EQ(world.take(), slow);
}

TEST(ShardRetire, ContextAloneBringsAnEmptyOpenChunkNotBack) {
  ShardWorld world({.capacity = 1});
  const std::uint32_t slow = world.take();
  world.append(slow, {1.0F});
  world.ingest();
  const std::uint32_t quick = world.take();
  world.append(quick, {1.0F});
  world.ingest();
  world.append(slow, {kMark});
  world.ingest();
  EXPECT_TRUE(world.invariants_hold());
  world.append(quick, {1.0F});
  world.ingest();
  EXPECT_EQ(world.items(), (Places{{quick, 1}}));
  EXPECT_TRUE(world.invariants_hold());
}

}  // namespace
}  // namespace reprise::shard
