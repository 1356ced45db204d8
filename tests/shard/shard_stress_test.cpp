#include "../support/hang_guard.hpp"
#include "../support/rng.hpp"
#include "../support/scale.hpp"
#include "shard_world.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

namespace reprise::shard {
namespace {

constexpr WorldOptions kOptions{.chunks = 12, .rows = 8, .capacity = 16};

/// What a row holds: a number and what must go with it. Plain memory, so that a row which is
/// reused while somebody reads it is torn, and a data race.
struct Payload {
  std::uint64_t id;
  std::uint64_t proof;

  static Payload of(std::uint64_t id, Place place) {
    return {id, test::Rng(id * 1009 + place.first * 64 + place.second).next()};
  }
};

/// Fills chunk after chunk, in steps of its own size, and hands some over.
class WritingThread {
 public:
  WritingThread(ShardWorld& world, std::uint64_t seed) : world_(world), rng_(seed) {}

  void run(std::size_t rows) {
    for (std::size_t written = 0; written < rows;) {
      const std::uint32_t chunk = wait_for_chunk();
      written += fill(chunk);
    }
  }
  [[nodiscard]] std::uint64_t items() const { return items_; }

 private:
  std::uint32_t wait_for_chunk() {
    for (;;) {
      if (const std::uint32_t chunk = world_.take(); chunk != storage::kNil) {
        return chunk;
      }
      Shard& shard = world_.shard();
      if (shard.mutex.try_lock()) {
        const select::Summary nowhere[2] = {};
        shard.ingest(nowhere, 4);
        shard.mutex.unlock();
      } else {
        std::this_thread::yield();
      }
    }
  }
  std::size_t fill(std::uint32_t chunk) {
    std::size_t written = 0;
    std::uint32_t row = world_.store.chunk(chunk).cursor;
    while (row < kOptions.rows) {
      const Payload payload = Payload::of(rng_.next(), {chunk, row});
      std::memcpy(world_.store.row(chunk, row), &payload, sizeof(payload));
      // The first row is context, so that a chunk which is read from its start shows.
      const float priority = row == 0 ? ShardWorld::kMark : 1.0F;
      world_.publish(chunk, std::span(&priority, 1));
      items_ += row == 0 ? 0U : 1U;
      ++written;
      ++row;
      if (rng_.chance(0.02)) {
        std::this_thread::yield();  // Between publish and ring.
      }
      world_.ring(chunk, row == kOptions.rows);
      if (row < kOptions.rows && rng_.chance(0.03)) {
        world_.shard().hand_over(chunk);
        break;
      }
    }
    return written;
  }

  ShardWorld& world_;
  test::Rng rng_;
  std::uint64_t items_ = 0;
};

/// Draws, reads without the lock, unpins; updates keys of long ago.
class ReadingThread {
 public:
  ReadingThread(ShardWorld& world, std::uint64_t seed) : world_(world), rng_(seed) {}

  void turn() {
    world_.ingest(0, 1 + rng_.below(4));
    const ShardWorld::Draw draw = world_.draw(ShardWorld::kByPriority, 1 + rng_.below(8));
    if (draw.total == 0.0) {
      return;
    }
    for (const Drawn& drawn : draw.drawn) {
      if (rng_.chance(0.05)) {
        std::this_thread::yield();  // While pinned.
      }
      Payload payload{};
      std::memcpy(&payload, world_.store.row(drawn.chunk, drawn.row), sizeof(payload));
      torn_ += payload.proof == Payload::of(payload.id, {drawn.chunk, drawn.row}).proof ? 0U : 1U;
      context_ += drawn.row == 0 ? 1U : 0U;
    }
    world_.unpin(draw);
    keys_.insert(keys_.end(), draw.keys.begin(), draw.keys.end());
    if (keys_.size() > 200) {
      world_.update(keys_, static_cast<float>(1 + rng_.below(5)));
      keys_.clear();
    }
  }
  [[nodiscard]] std::uint64_t torn() const { return torn_; }
  [[nodiscard]] std::uint64_t context() const { return context_; }

 private:
  ShardWorld& world_;
  test::Rng rng_;
  std::vector<ItemKey> keys_;
  std::uint64_t torn_ = 0;
  std::uint64_t context_ = 0;
};

std::set<std::uint32_t> pop_all(Shard& shard, std::uint32_t (Shard::*taker)() noexcept) {
  std::set<std::uint32_t> chunks;
  for (std::uint32_t c = (shard.*taker)(); c != storage::kNil; c = (shard.*taker)()) {
    EXPECT_TRUE(chunks.insert(c).second) << "chunk " << c << " is there twice";
  }
  return chunks;
}

TEST(ShardStress, WritersAndReadersLoseNothingTearNothingAndLeakNothing) {
  const test::HangGuard guard("two writers and two readers of one shard",
                              std::chrono::seconds(300));
  constexpr std::uint64_t kSeed = 17;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const std::size_t rows = test::scaled(60000, 5000);
  ShardWorld world(kOptions);
  WritingThread first(world, kSeed);
  WritingThread second(world, kSeed + 1);
  ReadingThread reader(world, kSeed + 2);
  ReadingThread helper(world, kSeed + 3);
  std::atomic<bool> done{false};
  {
    std::jthread reading([&] {
      while (!done.load()) {
        reader.turn();
      }
    });
    std::jthread writing([&] { first.run(rows); });
    std::jthread writing_too([&] { second.run(rows); });
    for (int i = 0; i < 2000; ++i) {
      helper.turn();
    }
    writing.join();
    writing_too.join();
    done.store(true);
  }
  while (world.ingest()) {
  }
  EXPECT_EQ(reader.torn() + helper.torn(), 0U);
  EXPECT_EQ(reader.context() + helper.context(), 0U);
  EXPECT_TRUE(world.invariants_hold());
  const Counters counters = world.counters();
  EXPECT_EQ(counters.ingested_items, first.items() + second.items());
  EXPECT_EQ(counters.ingested_items - counters.evicted_items, kOptions.capacity);
  EXPECT_EQ(world.items().size(), kOptions.capacity);
  EXPECT_EQ(counters.queued_chunks, 0U);
  EXPECT_EQ(counters.retired_pinned, 0U);

  // Every chunk ever used is free, left open, or holds items; one left open may hold items.
  std::set<std::uint32_t> accounted;
  for (const Place& place : world.items()) {
    accounted.insert(place.first);
  }
  const std::set<std::uint32_t> open = pop_all(world.shard(), &Shard::take_open);
  accounted.insert(open.begin(), open.end());
  for (const std::uint32_t chunk : pop_all(world.shard(), &Shard::take_recycled)) {
    EXPECT_TRUE(accounted.insert(chunk).second) << "chunk " << chunk << " is free and in use";
  }
  EXPECT_EQ(accounted.size(), world.shard().chunks_touched());
}

}  // namespace
}  // namespace reprise::shard
