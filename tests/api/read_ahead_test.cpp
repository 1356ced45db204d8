#include "buffer/buffer_core.hpp"
#include "storage/frame_codec.hpp"
#include "storage/row_layout.hpp"
#include "testing/faults/noted_advice.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

#include <unistd.h>

// Tests of the ranges of a mapped file that a sampler asks the system to read ahead.

namespace reprise::test {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kFrameBytes = 3000;

/// A buffer of short episodes with two frames per step, of which a quarter compress well.
struct FilmBuffer {
  explicit FilmBuffer(bool compressed, const Storage& storage)
      : replay(make_schema(compressed), {.capacity_steps = 900,
                                         .window = Transitions{.n_step = 3, .frame_stack = 4},
                                         .selectors = {Uniform{}},
                                         .storage = storage,
                                         .max_writers = 1,
                                         .chunk_steps = 100,
                                         .shards = 1}) {
    std::mt19937 random(1);
    Writer writer = replay.writer();
    const auto paint = [&](std::span<std::uint8_t> frame) {
      std::ranges::fill(frame, static_cast<std::uint8_t>(random()));
      if (random() % 4 != 0) {
        std::ranges::generate(frame, [&] { return static_cast<std::uint8_t>(random()); });
      }
    };
    for (int step = 0; step < 1000; ++step) {
      if (!writer.in_episode()) {
        writer.begin_episode();
        paint(writer.now(left));
        paint(writer.now(right));
      }
      writer.now(reward) = 1.0F;
      paint(writer.next(left));
      paint(writer.next(right));
      writer.commit(random() % 6 == 0 ? End::Terminated : End::Continue);
    }
  }

  const Schema& make_schema(bool compressed) {
    if (compressed) {
      schema.compress(left);
      schema.compress(right);
    }
    return schema;
  }

  Schema schema;
  Observation<std::uint8_t> left = schema.observation<std::uint8_t>("left", {kFrameBytes});
  Observation<std::uint8_t> right = schema.observation<std::uint8_t>("right", {kFrameBytes});
  Reward reward = schema.reward("reward");
  ReplayBuffer replay;
};

/// The bytes that a gather of these items reads: per window a range of rows and, if frames are
/// compressed, a range of frames and the key frames of the chunk.
struct WindowBytes {
  WindowBytes(buffer::BufferCore& core, std::span<const ItemKey> keys) {
    storage::ChunkStore& store = core.store();
    for (const ItemKey key : keys) {
      const storage::Place place = store.place(key.slot());
      storage::ItemHeader header;
      std::memcpy(&header, store.row(place.chunk, place.row), sizeof(header));
      // The rows of the stack before the item: up to frame_stack - 1, but not before the episode.
      const auto stacked =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(header.position(), 3));
      const std::byte* const first = store.row(place.chunk, place.row - stacked);
      rows.emplace_back(first, (stacked + 1 + header.length()) * store.row_stride());
      const std::vector<storage::CompressedField>& fields = core.chunk_layout().compressed();
      if (fields.empty()) {
        continue;
      }
      const auto ref = [&](const std::byte* row, const storage::CompressedField& field) {
        storage::FrameRef frame;
        std::memcpy(&frame, row + field.offset, sizeof(frame));
        return frame;
      };
      const Bytes room = store.frame_room(first);
      const std::size_t begin = ref(first, fields.front()).at;
      const std::byte* const last = store.row(place.chunk, place.row + header.length());
      frames.push_back(room.subspan(begin, ref(last, fields.back()).end() - begin));
      key_frames.push_back(room.first(fields.size() * kFrameBytes));
    }
  }

  std::vector<Bytes> rows;
  std::vector<Bytes> frames;
  std::vector<Bytes> key_frames;
};

/// Whether the ranges together contain all of `bytes`.
bool covers(const std::vector<Bytes>& ranges, Bytes bytes) {
  while (!bytes.empty()) {
    const auto range = std::ranges::find_if(ranges, [&](Bytes candidate) {
      return candidate.data() <= bytes.data() && bytes.data() < candidate.data() + candidate.size();
    });
    if (range == ranges.end()) {
      return false;
    }
    const std::ptrdiff_t left = range->data() + range->size() - bytes.data();
    bytes = bytes.subspan(std::min(static_cast<std::size_t>(left), bytes.size()));
  }
  return true;
}

/// Adds up the bytes of the ranges, each counted from the beginning of its first page.
std::size_t bytes_from_pages(const std::vector<Bytes>& ranges) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::size_t bytes = 0;
  for (const Bytes range : ranges) {
    bytes += range.size() + reinterpret_cast<std::uintptr_t>(range.data()) % page;
  }
  return bytes;
}

class ReadAhead : public testing::TestWithParam<bool> {};

TEST_P(ReadAhead, IsRequestedForAllBytesOfABatchIfTheBatchBeforeCameFromTheDisk) {
  const ScratchDirectory directory;
  FilmBuffer film(GetParam(), MappedFile{directory.path()});
  Sampler sampler = film.replay.sampler({.seed = 1, .parallel_gather_bytes = kNoParallelGather});
  (void)take_read_ahead();
  // Draws a batch, which seems to come from the disk or from memory. Returns whether the sampler
  // has requested to read ahead.
  const auto requests = [&](bool from_disk) {
    set_disk_reads_per_call(from_disk ? 1 : 0);
    const SampleResult batch = sampler.sample(64, kNoWait);
    EXPECT_TRUE(batch);
    const std::vector<Bytes> ranges = take_read_ahead();
    if (!ranges.empty()) {
      const WindowBytes windows(*core_of(film.replay), batch->keys());
      for (const std::vector<Bytes>& wanted : {windows.rows, windows.frames, windows.key_frames}) {
        EXPECT_TRUE(
            std::ranges::all_of(wanted, [&](Bytes bytes) { return covers(ranges, bytes); }));
      }
      // All 7 rows that a window may have are requested, also if the episode ends earlier. Each
      // range begins at a page, up to 4095 bytes earlier.
      const std::size_t rows = 64 * (7 * core_of(film.replay)->store().row_stride() + 4095);
      EXPECT_LE(bytes_from_pages(ranges),
                rows + bytes_from_pages(windows.frames) + bytes_from_pages(windows.key_frames));
    }
    return !ranges.empty();
  };
  EXPECT_FALSE(requests(/*from_disk=*/false));
  EXPECT_FALSE(requests(/*from_disk=*/true)) << "the batch before came from memory";
  EXPECT_TRUE(requests(/*from_disk=*/true));
  EXPECT_TRUE(requests(/*from_disk=*/false)) << "the batch before came from the disk";
  EXPECT_FALSE(requests(/*from_disk=*/false));
}

INSTANTIATE_TEST_SUITE_P(OfFrames, ReadAhead, testing::Bool(), [](const auto& instance) {
  return instance.param ? "Compressed" : "AsTheyAre";
});

TEST(ReadAheadInMemory, IsNotRequested) {
  FilmBuffer film(/*compressed=*/true, Memory{});
  Sampler sampler = film.replay.sampler({.seed = 1, .parallel_gather_bytes = kNoParallelGather});
  set_disk_reads_per_call(1);
  (void)take_read_ahead();  // Forgets the advice of other tests.
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(sampler.sample(64, kNoWait));
  }
  EXPECT_TRUE(take_read_ahead().empty());
}

}  // namespace
}  // namespace reprise::test
