#include "buffer/buffer_core.hpp"
#include "storage/frame_codec.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/program/sanitizer.hpp"
#include "testing/test.hpp"
#include "testing/worlds/world.hpp"

namespace reprise::test {
namespace {

constexpr std::size_t kFrame = 84 * 84;

enum class Stored { Plain, Compressed };
/// Screens on which little changes from step to step, or noise.
enum class Content { Scenes, Noise };

void draw_frame(std::span<std::uint8_t> to, std::size_t step, Content content) {
  std::mt19937 random(static_cast<std::uint32_t>(content == Content::Noise ? step + 1 : 0));
  std::ranges::generate(to, [&] { return static_cast<std::uint8_t>(random()); });
  if (content == Content::Scenes) {
    std::fill_n(to.begin() + static_cast<std::ptrdiff_t>(step * 13 % (to.size() - 20)), 20,
                static_cast<std::uint8_t>(step));
  }
}

/// A buffer with one episode of frames.
struct Film {
  explicit Film(Stored stored, Content content = Content::Scenes, std::size_t capacity = 2000,
                std::size_t chunk_steps = 250)
      : replay(make_schema(stored), {.capacity_steps = capacity,
                                     .window = Transitions{.n_step = 3, .frame_stack = 4},
                                     .selectors = {Uniform{}},
                                     .max_writers = 1,
                                     .chunk_steps = chunk_steps,
                                     .shards = 2,
                                     .key_tag = 1}) {
    Writer writer = replay.writer();
    writer.begin_episode();
    draw_frame(writer.now(frame), 0, content);
    for (std::size_t step = 0; step < capacity + capacity / 2; ++step) {
      writer.now(reward) = 1.0F;
      draw_frame(writer.next(frame), step + 1, content);
      writer.commit();
    }
    (void)replay.size();
  }

  const Schema& make_schema(Stored stored) {
    if (stored == Stored::Compressed) {
      schema.compress(frame);
    }
    return schema;
  }

  Schema schema;
  Observation<std::uint8_t> frame = schema.observation<std::uint8_t>("frame", {84, 84});
  Reward reward = schema.reward("reward");
  ReplayBuffer replay;
};

TEST(CompressedFrames, GiveTheSameBatchesAsUncompressedFrames) {
  Film plain(Stored::Plain);
  Film packed(Stored::Compressed);
  for (const bool unique : {false, true}) {
    for (const std::size_t threads_from : {std::size_t{1}, ~std::size_t{0}}) {
      const SamplerOptions options{
          .seed = 5,
          .unique_frames = unique,
          .parallel_gather_bytes = kThreadSanitizer ? ~std::size_t{0} : threads_from};
      auto from_plain = plain.replay.sampler(options);
      auto from_packed = packed.replay.sampler(options);
      const auto a = from_plain.sample(500);
      const auto b = from_packed.sample(500);
      ASSERT_TRUE(a && b);
      EXPECT_TRUE(std::ranges::equal(a->positions(), b->positions()));
      for (std::size_t i = 0; i < 500; ++i) {
        ASSERT_TRUE(
            std::ranges::equal(a->now_stacks(plain.frame)[i], b->now_stacks(packed.frame)[i]));
        ASSERT_TRUE(
            std::ranges::equal(a->next_stacks(plain.frame)[i], b->next_stacks(packed.frame)[i]));
      }
    }
  }
}

TEST(CompressedFrames, TakeLittleMemoryAndTheStatisticsSaySo) {
  const Stats plain = Film(Stored::Plain).replay.stats();
  const Stats packed = Film(Stored::Compressed).replay.stats();
  EXPECT_EQ(plain.compressed_bytes, 0U);
  EXPECT_EQ(plain.uncompressed_bytes, 0U);
  // The bytes include context rows, final observations, and what the next chunk reserves.
  EXPECT_GE(packed.uncompressed_bytes, 2000 * kFrame);
  EXPECT_LE(packed.uncompressed_bytes, 2600 * kFrame);
  EXPECT_EQ(packed.uncompressed_bytes % kFrame, 0U);
  EXPECT_GE(packed.compressed_bytes, 2000U * 20);
  EXPECT_LE(packed.compressed_bytes, packed.uncompressed_bytes / 20);
  EXPECT_LE(packed.touched_bytes, plain.touched_bytes / 10);
  EXPECT_GE(packed.touched_bytes, packed.compressed_bytes);
}

TEST(CompressedFrames, OfNoiseCostTwoPercentAtMost) {
  const Stats plain = Film(Stored::Plain, Content::Noise).replay.stats();
  const Stats packed = Film(Stored::Compressed, Content::Noise).replay.stats();
  EXPECT_EQ(packed.compressed_bytes, packed.uncompressed_bytes);
  EXPECT_LE(static_cast<double>(packed.touched_bytes),
            1.02 * static_cast<double>(plain.touched_bytes));
}

TEST(CompressedFrames, TheStatisticsAreOfWhatTheBufferHolds) {
  Film film(Stored::Compressed);
  film.replay.clear();
  // Only the chunk that the writer has open still counts.
  EXPECT_LT(film.replay.stats().uncompressed_bytes, 250 * kFrame);
  EXPECT_LT(film.replay.stats().compressed_bytes, film.replay.stats().uncompressed_bytes);
  EXPECT_GT(film.replay.stats().touched_bytes, 2000U * 20) << "chunks keep their memory";
}

TEST(CompressedFrames, FieldsThatCannotBeCompressedAreRefused) {
  Schema schema;
  const auto frame = schema.observation<std::uint8_t>("frame", {512});
  const auto small = schema.observation<std::uint8_t>("small", {511});
  const AnyField action =
      schema.declare("action", Role::Column, DType::U8, std::vector<std::size_t>{512});
  schema.compress(frame);
  EXPECT_TRUE(schema.compresses(0));
  expect_refusal([&] { schema.compress(small); },
                 {"Schema::compress", "'small'", "511", "at least 512"});
  expect_refusal([&] { schema.compress(action); },
                 {"Schema::compress", "'action'", "column", "observations"});
  Schema other;
  expect_refusal([&] { other.compress(frame); }, {"field 0", "0 fields"});
  const auto words = other.observation<std::uint16_t>("words", {512});
  expect_refusal([&] { schema.compress(words); }, {"'frame'", "another schema"});
  EXPECT_FALSE(schema.compresses(1));
  EXPECT_FALSE(schema.compresses(2));
  EXPECT_FALSE(other.compresses(0));
}

TEST(CompressedFrames, ChunksOfMoreThanFourGigabytesAreRefused) {
  Schema schema;
  schema.compress(schema.observation<std::uint8_t>("frame", {std::size_t{1} << 20U}));
  expect_refusal([&] { ReplayBuffer(schema, {.capacity_steps = 10'000, .chunk_steps = 4096}); },
                 {"chunk_steps is 4096", "1048576 bytes", "at most 4095"});
}

TEST(CompressedFrames, SchemasThatDifferOnlyInThemAreEqual) {
  Schema plain;
  plain.observation<std::uint8_t>("frame", {600});
  Schema packed;
  packed.compress(packed.observation<std::uint8_t>("frame", {600}));
  EXPECT_EQ(plain, packed);
}

TEST(CompressedFrames, DamagedInMemoryAreAllZeros) {
  Film film(Stored::Compressed, Content::Scenes, /*capacity=*/200, /*chunk_steps=*/64);
  buffer::BufferCore& core = *core_of(film.replay);
  const std::size_t ref = core.chunk_layout().fields()[0].offset;
  storage::ChunkStore& store = core.store();
  std::mt19937 random(1);
  auto sampler = film.replay.sampler({.seed = 2});
  std::size_t zeros = 0;
  for (int round = 0; round < 300; ++round) {
    const auto chunk = static_cast<std::uint32_t>(random() % store.chunks());
    const auto row = static_cast<std::uint32_t>(random() % store.chunk_rows());
    const storage::FrameRef wrong{static_cast<std::uint32_t>(random()) >> (random() % 32),
                                  static_cast<std::uint32_t>(random()) >> (random() % 32)};
    if (round % 2 == 0) {
      std::memcpy(store.row(chunk, row) + ref, &wrong, sizeof(wrong));
    } else {
      const std::span<std::byte> room = store.frame_room(chunk);
      room[random() % room.size() / (1 + random() % 64)] ^= std::byte{0x40};
    }
    const auto batch = sampler.sample(64);
    ASSERT_TRUE(batch);
    for (std::size_t i = 0; i < 64; ++i) {
      const auto last = batch->now_stacks(film.frame)[i].last(kFrame);
      zeros += std::ranges::all_of(last, [](std::uint8_t pixel) { return pixel == 0; }) ? 1U : 0U;
    }
  }
  EXPECT_GT(zeros, 0U);
}

}  // namespace
}  // namespace reprise::test
