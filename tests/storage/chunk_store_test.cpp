#include "storage/chunk_store.hpp"

#include "testing/test.hpp"

#include <new>

namespace reprise::storage {
namespace {

std::uintptr_t address(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

TEST(ChunkStore, ChunksBeginOnCacheLinesAndRowsFollowEachOther) {
  ChunkStore store(4, 7, 40);
  for (std::uint32_t c = 0; c < 4; ++c) {
    EXPECT_EQ(address(store.row(c, 0)) % base::kCacheLine, 0U);
    EXPECT_EQ(store.row(c, 6) - store.row(c, 0), 6 * 40);
    if (c > 0) {
      EXPECT_GE(store.row(c, 0), store.row(c - 1, 6) + 40);
    }
  }
}

TEST(ChunkStore, RecurrentStatesFillEachChunksRoomFromTheFront) {
  constexpr std::size_t kState = 24;
  ChunkStore store(3, {.rows = 5, .row_bytes = 40, .state_bytes = kState});
  EXPECT_EQ(store.reserved_state_bytes(), 15 * kState);
  EXPECT_EQ(store.touched_state_bytes(), 0U);
  EXPECT_EQ(store.take_state(1), 5U);
  EXPECT_EQ(store.take_state(1), 6U);
  EXPECT_EQ(store.take_state(2), 10U);
  EXPECT_EQ(store.state(6) - store.state(0), 6 * std::ptrdiff_t{kState});
  EXPECT_EQ(store.touched_state_bytes(), 3 * kState);
  store.chunk(1).states = 0;  // Retiring a chunk sets this to 0.
  EXPECT_EQ(store.take_state(1), 5U);
  EXPECT_EQ(store.touched_state_bytes(), 3 * kState) << "used before";
  EXPECT_EQ(ChunkStore(3, 5, 40).reserved_state_bytes(), 0U);
}

TEST(ChunkStore, CountsWhatRowsStatesAndCompressedFramesOfAChunkTake) {
  ChunkStore store(
      2, {.rows = 5, .row_bytes = 40, .state_bytes = 24, .frame_bytes = 600, .last_ref = 16});
  const std::size_t rows = 256 + 5 * 24;  // Rows of 200 bytes take whole cache lines.
  EXPECT_EQ(store.bytes_of_chunk(0), rows);
  store.note_frames(0, 3, 700);
  EXPECT_EQ(store.bytes_of_chunk(0), rows + 700);
  EXPECT_EQ(store.bytes_of_chunk(1), rows);
  store.note_frames(0, 1, 600);  // The chunk is filled again, with smaller frames.
  EXPECT_EQ(store.bytes_of_chunk(0), rows + 600);
}

TEST(ChunkStore, CountsTheChangesOfEachRowOfAChunk) {
  ChunkStore store(2, {.rows = 3, .row_bytes = 16, .versions = true});
  for (std::uint32_t row = 0; row < 3; ++row) {
    const std::uint32_t before = store.changes(0);
    EXPECT_TRUE(store.version(store.row(0, row))->try_write([] {}));
    EXPECT_NE(store.changes(0), before) << row;
  }
  EXPECT_EQ(store.changes(1), 0U);
}

TEST(ChunkStore, TheWordsOfAWriterAndOfReadersAreOnLinesOfTheirOwn) {
  ChunkStore store(2, 4, 16);
  const auto line = [](const void* pointer) { return address(pointer) / base::kCacheLine; };
  EXPECT_NE(line(&store.chunk(0).bell), line(&store.chunk(0).pins));
  EXPECT_NE(line(&store.chunk(0).pins), line(&store.chunk(1).bell));
}

TEST(ChunkStore, WhatTheAddressSpaceCannotHoldThrows) {
  constexpr std::size_t kChunks = std::size_t{1} << 40U;
  EXPECT_THROW(ChunkStore(kChunks, 1024, 64), std::bad_alloc);
}

}  // namespace
}  // namespace reprise::storage
