#include "shard_world.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <vector>

namespace reprise::shard {
namespace {

using storage::kNil;
constexpr float kMark = ShardWorld::kMark;
constexpr std::size_t kByPriority = ShardWorld::kByPriority;

TEST(ShardDraw, DrawsNothingAndPinsNothingWithoutWeight) {
  ShardWorld world({.chunks = 1});
  EXPECT_EQ(world.draw(kByPriority, 3).total, 0.0);
  world.append(world.take(), {0.0F, kMark});
  world.ingest();
  EXPECT_EQ(world.draw(kByPriority, 3).total, 0.0);
  EXPECT_EQ(world.draw(ShardWorld::kUniform, 1).total, 1.0) << "but the item is there";
}

TEST(ShardDraw, DrawsInProportionAndReportsWeightsKeysAndRows) {
  ShardWorld world({.shards = 2, .rows = 4, .capacity = 100});
  world.append(world.take(1), {1.0F, kMark});
  world.append(world.take(1), {0.0F, 4.0F, 3.0F});
  world.ingest(1);
  const ShardWorld::Draw draw = world.draw(kByPriority, 16, 1);
  EXPECT_EQ(draw.total, 8.0);
  std::map<Place, int> counts;
  for (std::size_t i = 0; i < draw.places.size(); ++i) {
    const auto [chunk, row] = draw.places[i];
    ++counts[{chunk, row}];
    EXPECT_EQ(draw.weights[i], world.store.priorities(chunk)[row]);
    EXPECT_EQ(draw.keys[i], ItemKey::make(chunk * 4 + row, 0, ShardWorld::kTag));
  }
  EXPECT_EQ(counts, (std::map<Place, int>{{{4, 0}, 2}, {{5, 1}, 8}, {{5, 2}, 6}}));
}

TEST(ShardDraw, OnePinServesARunOfDrawsInOneChunk) {
  ShardWorld world({.rows = 2, .capacity = 100});
  world.append(world.take(), {1.0F, 1.0F});
  world.append(world.take(), {2.0F});
  world.ingest();
  const ShardWorld::Draw draw = world.draw(kByPriority, 4);
  EXPECT_EQ(draw.pinned, (std::vector<std::uint32_t>{0, 1}));
}

/// A world of two chunks, the first of which is drawn from, and then evicted and closed.
struct PinnedWorld : ShardWorld {
  PinnedWorld() : ShardWorld({.chunks = 2, .rows = 2, .capacity = 2}) {
    add_closed({1.0F, 1.0F});
    ingest();
    first = draw(kByPriority, 2);
    second = draw(kByPriority, 2);
    add_closed({1.0F, 1.0F});
    ingest();
  }
  Draw first;
  Draw second;
};

TEST(ShardPins, DelayTheReuseOfARetiredChunkUntilTheLastOneGoes) {
  PinnedWorld world;
  EXPECT_EQ(world.counters().retired_pinned, 1U);
  EXPECT_EQ(world.items(), (std::set<Place>{{1, 0}, {1, 1}})) << "nothing waits but memory";
  EXPECT_EQ(world.take(), kNil);
  world.unpin(world.second);
  EXPECT_EQ(world.take(), kNil);
  world.unpin(world.first);
  EXPECT_EQ(world.counters().retired_pinned, 0U);
  EXPECT_EQ(world.take(), 0U);
  EXPECT_EQ(world.take(), kNil) << "freed once";
}

TEST(ShardPins, DoNotKeepKeysAlive) {
  PinnedWorld world;
  EXPECT_EQ(world.update(world.first.keys, 50.0F), 0U);
  EXPECT_EQ(world.total(kByPriority), 2.0);
}

TEST(ShardPins, OfALiveChunkFreeNothing) {
  ShardWorld world({.chunks = 1, .rows = 2});
  world.add_closed({1.0F, 1.0F});
  world.ingest();
  world.unpin(world.draw(kByPriority, 5));
  EXPECT_EQ(world.take(), kNil);
  EXPECT_EQ(world.items().size(), 2U);
}

TEST(ShardUpdate, SetsWeightsOfLiveItemsInTheNamedSelectorAlone) {
  ShardWorld world;
  world.append(world.take(), {1.0F, 1.0F, 1.0F});
  world.ingest();
  const std::vector<ItemKey> keys = world.keys();
  EXPECT_EQ(world.update(std::span(keys).subspan(1, 1), 6.0F), 1U);
  EXPECT_EQ(world.total(kByPriority), 8.0);
  EXPECT_EQ(world.shard().hints().summary(kByPriority).max, 6.0F);
  EXPECT_EQ(world.total(ShardWorld::kUniform), 3.0);
  EXPECT_EQ(world.update(std::span(keys).first(2), 0.0F), 2U);
  EXPECT_EQ(world.draw(kByPriority, 1).keys[0], keys[2]);
}

TEST(ShardUpdate, SkipsKeysOfItemsThatWereDeselectedOrNeverWere) {
  ShardWorld world({.rows = 5, .capacity = 2});
  const std::uint32_t chunk = world.take();
  world.append(chunk, {1.0F, kMark});
  world.ingest();
  std::vector<ItemKey> keys = world.keys();  // Of row 0, which is about to leave.
  world.append(chunk, {1.0F, 1.0F});
  world.ingest();
  for (const std::uint32_t row : {1U, 4U}) {  // Context, and a row not yet written.
    keys.push_back(ItemKey::make(row, 0, ShardWorld::kTag));
  }
  EXPECT_EQ(world.update(keys, 9.0F), 0U);
  EXPECT_EQ(world.total(kByPriority), 2.0);
}

TEST(ShardUpdate, AppliesLiveKeysAmongStaleOnesWithTheirOwnWeights) {
  ShardWorld world({.rows = 4, .capacity = 2});
  world.append(world.take(), {1.0F, 1.0F, 1.0F, 1.0F});
  world.ingest();  // Rows 2 and 3 are left.
  std::vector<ItemKey> keys;
  std::vector<float> weights;
  for (const std::uint32_t row : {0U, 3U, 1U, 2U, 3U}) {
    keys.push_back(ItemKey::make(row, 0, ShardWorld::kTag));
    weights.push_back(10.0F * static_cast<float>(keys.size()));
  }
  std::vector<std::uint32_t> leaves(keys.size());
  {
    Shard& shard = world.shard();
    const base::MutexLock lock(shard.mutex);
    EXPECT_EQ(shard.locked().update(kByPriority, keys, weights, leaves), 3U);
  }
  const ShardWorld::Draw draw = world.draw(kByPriority, 9);
  EXPECT_EQ(draw.total, 90.0) << "40 for row 2, and the last of two, 50, for row 3";
}

}  // namespace
}  // namespace reprise::shard
