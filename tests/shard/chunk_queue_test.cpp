#include "shard/chunk_queue.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace reprise::shard {
namespace {

using Chunks = std::vector<std::uint32_t>;
constexpr std::uint32_t kFirst = 10;

Chunks oldest_to_youngest(ChunkQueue& queue) {
  Chunks chunks;
  for (std::uint32_t c = queue.oldest(); c != storage::kNil; c = queue[c].newer) {
    chunks.push_back(c);
  }
  return chunks;
}

Chunks youngest_to_oldest(ChunkQueue& queue, std::uint32_t youngest) {
  Chunks chunks;
  for (std::uint32_t c = youngest; c != storage::kNil; c = queue[c].older) {
    chunks.push_back(c);
  }
  return chunks;
}

ChunkQueue queue_of(const Chunks& chunks) {
  ChunkQueue queue(kFirst, 5);
  for (const std::uint32_t chunk : chunks) {
    queue.append(chunk);
  }
  return queue;
}

TEST(ChunkQueue, IsEmptyAtFirst) {
  EXPECT_EQ(queue_of({}).oldest(), storage::kNil);
}

TEST(ChunkQueue, KeepsTheOrderInWhichChunksCame) {
  ChunkQueue queue = queue_of({12, 10, 14});
  EXPECT_EQ(oldest_to_youngest(queue), (Chunks{12, 10, 14}));
  EXPECT_EQ(youngest_to_oldest(queue, 14), (Chunks{14, 10, 12}));
}

TEST(ChunkQueue, RemovesFromEitherEndAndTheMiddle) {
  for (const std::uint32_t removed : {12U, 10U, 14U}) {
    ChunkQueue queue = queue_of({12, 10, 14});
    queue.remove(removed);
    queue.append(11);
    Chunks expected{12, 10, 14, 11};
    std::erase(expected, removed);
    EXPECT_EQ(oldest_to_youngest(queue), expected);
    EXPECT_EQ(youngest_to_oldest(queue, 11), Chunks(expected.rbegin(), expected.rend()));
  }
}

TEST(ChunkQueue, ARemovedChunkComesBackAtTheYoungEnd) {
  ChunkQueue queue = queue_of({12, 10});
  queue.remove(12);
  queue.append(12);
  EXPECT_EQ(oldest_to_youngest(queue), (Chunks{10, 12}));
}

TEST(ChunkQueue, TheLastOneLeavesItEmpty) {
  ChunkQueue queue = queue_of({13});
  queue.remove(13);
  EXPECT_EQ(queue.oldest(), storage::kNil);
  queue.append(11);
  EXPECT_EQ(oldest_to_youngest(queue), Chunks{11});
}

}  // namespace
}  // namespace reprise::shard
