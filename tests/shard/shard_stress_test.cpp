#include "shard_world.hpp"
#include "testing/fixtures/removers.hpp"
#include "testing/test.hpp"

namespace reprise::shard {
namespace {

constexpr std::uint32_t kChunks = 16;
constexpr std::uint32_t kRows = 8;
constexpr std::size_t kCapacity = 16;

/// The contents of a row: the item's number, and a value that follows from it. They are plain
/// memory, so that a row that is reused while a thread reads it shows as torn, as another item, or
/// as a data race.
struct Payload {
  std::uint64_t id;
  std::uint64_t checksum;

  static Payload of(std::uint64_t id, Place place, std::uint64_t generation) {
    return {id, test::Rng(id + generation * 1024 + place.first * 64 + place.second).next()};
  }
};

/// How often each chunk was begun. Plain memory, because only the owner of a chunk accesses its
/// element.
using Begun = std::array<std::uint64_t, kChunks>;

/// Two writers in one thread that write rows alternately, so that one bell rings while another bell
/// is answered. They fill chunk after chunk, and leave some to other writers.
class WritingThread {
 public:
  WritingThread(ShardWorld& world, Begun& begun, std::uint64_t seed)
      : world_(world), begun_(begun), rng_(seed) {}

  void run(std::size_t rows) {
    std::array<std::uint32_t, 2> chunks{storage::kNil, storage::kNil};
    for (std::size_t i = 0; i < rows; ++i) {
      std::uint32_t& chunk = chunks[i % chunks.size()];
      if (chunk == storage::kNil) {
        chunk = wait_for_chunk();
      }
      if (!write_row(chunk)) {
        chunk = storage::kNil;
      }
    }
    for (const std::uint32_t chunk : chunks) {
      if (chunk != storage::kNil) {
        world_.shard().chunks().leave_open(chunk);
      }
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
        const SelectorSummary no_other_shards[2] = {};
        shard.locked().ingest(no_other_shards, 4);
        shard.locked().publish_hints();
        shard.mutex.unlock();
      } else {
        std::this_thread::yield();
      }
    }
  }
  /// Writes one row. Returns false if the chunk no longer belongs to this writer afterwards.
  bool write_row(std::uint32_t chunk) {
    const std::uint32_t row = world_.store.chunk(chunk).cursor;
    begun_[chunk] += row == 0 ? 1U : 0U;
    const Payload payload = Payload::of(rng_.next(), {chunk, row}, begun_[chunk] - 1);
    std::memcpy(world_.store.row(chunk, row), &payload, sizeof(payload));
    // The first row is context and no item, so that an error in the place of the first item shows.
    const float priority = row == 0 ? ShardWorld::kNotAStep : 1.0F;
    world_.publish(chunk, std::span(&priority, 1));
    items_ += row == 0 ? 0U : 1U;
    if (rng_.chance(0.02)) {
      std::this_thread::yield();  // Lets other threads run between publish and ring.
    }
    const bool full = row + 1 == kRows;
    world_.ring(chunk, full ? Ring::Closing : Ring::News);
    if (full) {
      return false;
    }
    if (rng_.chance(0.03)) {
      world_.shard().chunks().leave_open(chunk);
      return false;
    }
    return true;
  }

  ShardWorld& world_;
  Begun& begun_;
  test::Rng rng_;
  std::uint64_t items_ = 0;
};

/// Draws items, reads their rows without the lock, and unpins. It also updates with old keys.
class ReadingThread {
 public:
  ReadingThread(ShardWorld& world, std::uint64_t seed) : world_(world), rng_(seed) {}

  void draw_and_check() {
    world_.ingest(0, 1 + rng_.below(4));
    const ShardWorld::Draw draw = world_.draw(ShardWorld::kByPriority, 1 + rng_.below(8));
    if (draw.total == 0.0) {
      return;
    }
    for (std::size_t i = 0; i < draw.places.size(); ++i) {
      const auto [chunk, row] = draw.places[i];
      if (rng_.chance(0.05)) {
        std::this_thread::yield();  // Lets other threads run while the chunk is pinned.
      }
      Payload payload{};
      std::memcpy(&payload, world_.store.row(chunk, row), sizeof(payload));
      const Payload intact = Payload::of(payload.id, {chunk, row}, draw.keys[i].generation());
      torn_ += payload.checksum == intact.checksum ? 0U : 1U;
      context_ += row == 0 ? 1U : 0U;
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

std::set<std::uint32_t> pop_all(Shard& shard, std::uint32_t (ChunkPool::*taker)() noexcept) {
  std::set<std::uint32_t> chunks;
  for (std::uint32_t c = (shard.chunks().*taker)(); c != storage::kNil;
       c = (shard.chunks().*taker)()) {
    EXPECT_TRUE(chunks.insert(c).second) << "chunk " << c << " is there twice";
  }
  return chunks;
}

/// Two threads write `rows` rows each, while two threads read.
void stress(const Remover& remover, std::size_t rows) {
  constexpr std::uint64_t kSeed = 17;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  ShardWorld world({.chunks = kChunks, .rows = kRows, .capacity = kCapacity, .remover = remover});
  Begun begun{};
  WritingThread first(world, begun, kSeed);
  WritingThread second(world, begun, kSeed + 1);
  ReadingThread reader(world, kSeed + 2);
  ReadingThread helper(world, kSeed + 3);
  std::atomic<bool> done{false};
  {
    std::jthread reading([&] {
      while (!done.load()) {
        reader.draw_and_check();
      }
    });
    std::jthread writing([&] { first.run(rows); });
    std::jthread writing_too([&] { second.run(rows); });
    for (int i = 0; i < 2000; ++i) {
      helper.draw_and_check();
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
  EXPECT_EQ(counters.ingested_steps, first.items() + second.items());
  EXPECT_EQ(counters.ingested_steps - counters.evicted_steps, kCapacity);
  EXPECT_EQ(world.items().size(), kCapacity);
  EXPECT_EQ(counters.queued_chunks, 0U);
  EXPECT_EQ(counters.retired_pinned, 0U);

  // Every chunk ever used is free, left open, or holds items; open chunks may hold items too.
  std::set<std::uint32_t> accounted;
  for (const Place& place : world.items()) {
    accounted.insert(place.first);
  }
  const std::set<std::uint32_t> open = pop_all(world.shard(), &ChunkPool::take_open);
  accounted.insert(open.begin(), open.end());
  for (const std::uint32_t chunk : pop_all(world.shard(), &ChunkPool::take_recycled)) {
    EXPECT_TRUE(accounted.insert(chunk).second) << "chunk " << chunk << " is free and in use";
  }
  EXPECT_EQ(accounted.size(), world.shard().chunks().touched());
}

TEST(ShardStress, WritersAndReadersLoseNothingTearNothingAndLeakNothing) {
  stress(Fifo{}, test::scaled(300000, 5000));
}

class ShardStressOf : public testing::TestWithParam<test::NamedRemover> {};

INSTANTIATE_TEST_SUITE_P(Removers, ShardStressOf, testing::ValuesIn(test::all_removers()),
                         test::name_of);

TEST_P(ShardStressOf, WritersAndReadersLoseNothingTearNothingAndLeakNothing) {
  stress(GetParam().remover, test::scaled(50000, 2000));
}

}  // namespace
}  // namespace reprise::shard
