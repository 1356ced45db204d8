#include "shard_world.hpp"

#include <gtest/gtest.h>

#include <set>

namespace reprise::shard {
namespace {

using Places = std::set<Place>;
using storage::kNil;
constexpr float kMark = ShardWorld::kMark;
constexpr float kInitial = ShardWorld::kInitial;

TEST(ShardChunks, AreFreshOnceThenGone) {
  ShardWorld world({.shards = 2, .chunks = 2});
  EXPECT_EQ(world.shard(1).chunks().touched(), 0U);
  EXPECT_EQ(world.take_fresh(1), 2U);
  EXPECT_EQ(world.take_fresh(1), 3U);
  EXPECT_EQ(world.take_fresh(1), kNil);
  EXPECT_EQ(world.shard(1).chunks().touched(), 2U);
  EXPECT_EQ(world.shard(1).chunks().take_recycled(), kNil);
  EXPECT_EQ(world.shard(1).chunks().take_open(), kNil);
}

TEST(ShardChunks, LeftOpenAreTakenOverWithTheirCursor) {
  ShardWorld world;
  const std::uint32_t chunk = world.take();
  world.append(chunk, {1.0F, kMark});
  world.shard().chunks().hand_over(chunk);
  EXPECT_EQ(world.shard().chunks().take_recycled(), kNil);
  EXPECT_EQ(world.shard().chunks().take_open(), chunk);
  EXPECT_EQ(world.store.chunk(chunk).cursor, 2U);
  EXPECT_EQ(world.shard().chunks().take_open(), kNil);
}

TEST(ShardIngest, SeesNothingThatNobodyRangFor) {
  ShardWorld world;
  const std::uint32_t chunk = world.take();
  const float row = 1.0F;
  world.publish(chunk, std::span(&row, 1));
  EXPECT_FALSE(world.shard().maybe_rung());
  world.ingest();
  EXPECT_EQ(world.counters().ingested_steps, 0U);
}

TEST(ShardIngest, SeesTheLatestNewsOfARungChunk) {
  ShardWorld world;
  const std::uint32_t chunk = world.take();
  EXPECT_TRUE(world.append(chunk, {1.0F}));
  EXPECT_FALSE(world.append(chunk, {2.0F})) << "coalesced";
  EXPECT_TRUE(world.shard().maybe_rung());
  EXPECT_EQ(world.counters().queued_chunks, 1U);
  EXPECT_FALSE(world.ingest());
  EXPECT_EQ(world.counters().queued_chunks, 0U);
  EXPECT_FALSE(world.shard().maybe_rung());
  EXPECT_EQ(world.items(), (Places{{chunk, 0}, {chunk, 1}}));
  EXPECT_EQ(world.total(ShardWorld::kByPriority), 3.0);
}

TEST(ShardIngest, CountsItemsAndNotContext) {
  ShardWorld world({.rows = 6});
  world.append(world.take(), {kMark, 1.0F, kInitial, kMark, 0.0F, kMark});
  world.ingest();
  EXPECT_EQ(world.counters().ingested_steps, 3U);
  EXPECT_EQ(world.budget.resident(), 3U);
  EXPECT_EQ(world.items(), (Places{{0, 1}, {0, 2}, {0, 4}})) << "a priority of 0 is an item";
  EXPECT_EQ(world.total(ShardWorld::kByPriority), 2.0) << "the maximum in the buffer is 1";
  EXPECT_TRUE(world.invariants_hold());
}

TEST(ShardIngest, TakesAtMostSoManyChunksAndComesBackToTheRest) {
  ShardWorld world({.capacity = 100});
  for (int i = 0; i < 4; ++i) {
    world.append(world.take(), {1.0F});
  }
  EXPECT_TRUE(world.ingest(0, 1));
  EXPECT_EQ(world.items(), (Places{{0, 0}})) << "the first to ring comes first";
  EXPECT_TRUE(world.shard().maybe_rung()) << "though the doorbell list is empty";
  EXPECT_TRUE(world.ingest(0, 2));
  EXPECT_EQ(world.items(), (Places{{0, 0}, {1, 0}, {2, 0}}));
  EXPECT_FALSE(world.ingest(0, 2));
  EXPECT_EQ(world.items().size(), 4U);
  EXPECT_FALSE(world.shard().maybe_rung());
}

TEST(ShardIngest, ABacklogGoesBeforeLaterBellsAndTakesTheirNewsAlong) {
  ShardWorld world({.capacity = 100});
  for (int i = 0; i < 3; ++i) {
    world.append(world.take(), {1.0F});
  }
  world.ingest(0, 1);                     // 1 and 2 are left.
  EXPECT_FALSE(world.append(1, {1.0F}));  // In the backlog, so still rung.
  EXPECT_TRUE(world.append(0, {1.0F}));   // Ingested, so it rings again.
  EXPECT_TRUE(world.append(world.take(), {1.0F}));
  EXPECT_TRUE(world.ingest(0, 1));
  EXPECT_EQ(world.items(), (Places{{0, 0}, {1, 0}, {1, 1}}));
  EXPECT_TRUE(world.ingest(0, 2));
  EXPECT_EQ(world.items(), (Places{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}}));
  EXPECT_FALSE(world.ingest(0, 1));
  EXPECT_EQ(world.items().size(), 6U);
}

TEST(ShardIngest, AChunkClosedWhileInTheBacklogIsClosedWithItsTurn) {
  ShardWorld world;
  const std::uint32_t first = world.take();
  const std::uint32_t second = world.take();
  world.append(first, {1.0F});
  world.append(second, {kMark});
  world.ingest(0, 1);
  EXPECT_FALSE(world.ring(second, true));
  world.ingest(0, 1);
  EXPECT_EQ(world.take(), second) << "closed and without items, so reclaimed";
}

TEST(ShardIngest, AChunkClosedWithoutItemsIsReclaimedAtOnce) {
  ShardWorld world({.chunks = 2});
  const std::uint32_t never_written = world.take();
  EXPECT_TRUE(world.ring(never_written, true));
  world.ingest();
  EXPECT_EQ(world.take(), never_written);
  world.append(never_written, {kMark, kMark}, true);
  world.ingest();
  EXPECT_EQ(world.take(), never_written);
  EXPECT_EQ(world.store.chunk(never_written).cursor, 0U);
  EXPECT_EQ(world.counters().ingested_steps, 0U);
  EXPECT_TRUE(world.invariants_hold());
}

TEST(ShardIngest, AChunkThatIsFullIsNotClosedBeforeItsWriterSaysSo) {
  ShardWorld world({.chunks = 1, .rows = 2});
  const std::uint32_t chunk = world.take();
  world.append(chunk, {kMark, kMark});
  world.ingest();
  EXPECT_EQ(world.take(), kNil);
  world.ring(chunk, true);
  world.ingest();
  EXPECT_EQ(world.take(), chunk);
}

TEST(ShardIngest, InitialPrioritiesAreTheMaximumOfAllShards) {
  ShardWorld world({.shards = 2, .capacity = 100});
  world.append(world.take(0), {kInitial, 5.0F});
  world.ingest(0);
  EXPECT_EQ(world.total(ShardWorld::kByPriority, 0), 6.0);
  world.append(world.take(1), {2.0F, kInitial});
  world.ingest(1);
  EXPECT_EQ(world.total(ShardWorld::kByPriority, 1), 7.0);
}

TEST(ShardIngest, HintsTellEachSelectorsSummary) {
  ShardWorld world;
  world.append(world.take(), {4.0F, 2.0F, 0.0F});
  world.ingest();
  const SelectorSummary by_priority = world.shard().hints().summary(ShardWorld::kByPriority);
  EXPECT_EQ(by_priority.total, 6.0);
  EXPECT_EQ(by_priority.min_positive, 2.0F);
  EXPECT_EQ(by_priority.max, 4.0F);
  EXPECT_EQ(by_priority.highest_seen, 4.0F);
  EXPECT_EQ(world.shard().hints().summary(ShardWorld::kUniform).total, 3.0);
}

}  // namespace
}  // namespace reprise::shard
