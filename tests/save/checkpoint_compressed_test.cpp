#include "../checkpoint/copied_checkpoint.hpp"
#include "../record/memory_file_system.hpp"
#include "save/save.hpp"
#include "storage/frame_codec.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"
#include "testing/worlds/world.hpp"

/// Checkpoints of buffers with compressed fields.
namespace reprise::test {
namespace {

Options options_of(const Window& window) {
  return {.capacity_steps = 120,
          .window = window,
          .selectors = {Uniform{}, Fifo{}},
          .max_writers = 3,
          .chunk_steps = 24,
          .shards = 2,
          .key_tag = 3};
}

void append(const World& world, Writer& writer, std::size_t steps, Rng& rng) {
  for (std::size_t i = 0; i < steps; ++i) {
    world.append(writer, 1, rng.chance(0.05) ? End::Truncated : End::Continue);
  }
}

/// Draws batches, and expects every item to be as it was written.
void expect_items_intact(const World& world, ReplayBuffer& replay) {
  Sampler sampler = replay.sampler({.seed = 9, .resume = std::nullopt});
  for (int round = 0; round < 20; ++round) {
    const auto batch = sampler.sample(32);
    ASSERT_TRUE(batch);
    for (std::size_t i = 0; i < 32; ++i) {
      ASSERT_EQ(world.mismatch(*batch, i, replay.options().window, false), "");
    }
  }
}

class CompressedCheckpoint : public testing::TestWithParam<bool> {
 protected:
  const bool sequences_ = GetParam();
  const World world_{{.states = sequences_, .compressed = true}};
  const Options options_ =
      options_of(sequences_ ? Window(Sequences{.length = 4, .period = 2})
                            : Window(Transitions{.n_step = 3, .frame_stack = 2}));
};

INSTANTIATE_TEST_SUITE_P(WithSequences, CompressedCheckpoint, testing::Bool(),
                         testing::PrintToStringParamName());

TEST_P(CompressedCheckpoint, HoldsWhatWasWrittenAndGoesOn) {
  for (std::uint64_t seed = 1; seed <= scaled(12, 3) && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const ScratchDirectory directory;
    Rng rng(seed);
    {
      ReplayBuffer replay(world_.schema(), options_);
      Writer first = replay.writer();
      Writer second = replay.writer();
      append(world_, first, 37 * seed, rng);
      append(world_, second, 20 + seed, rng);
      replay.save(directory.path());
      append(world_, first, 30, rng);
      replay.save(directory.path());  // The two checkpoints share the closed chunks.
      append(world_, second, 30, rng);
    }
    ReplayBuffer loaded = ReplayBuffer::load(directory.path()).buffer;
    EXPECT_TRUE(loaded.schema().compresses(loaded.schema().fields().size() - 1));
    EXPECT_GT(loaded.stats().compressed_bytes, 0U);
    expect_items_intact(world_, loaded);
    Writer first = loaded.writer();
    Writer second = loaded.writer();
    append(world_, first, 50, rng);
    append(world_, second, 50, rng);
    expect_items_intact(world_, loaded);
  }
}

TEST_P(CompressedCheckpoint, TakesATenthOfTheBytesForFramesThatCompressWell) {
  const auto bytes = [&](bool compressed) {
    MemoryFileSystem files;
    Schema schema;
    const auto frame = schema.observation<std::uint8_t>("frame", {4000});
    if (compressed) {
      schema.compress(frame);
    }
    ReplayBuffer replay(schema, options_);
    Writer writer = replay.writer();
    writer.begin_episode();
    std::ranges::fill(writer.now(frame), std::uint8_t{1});
    for (std::uint8_t i = 0; i < 100; ++i) {
      std::ranges::fill(writer.next(frame), i);
      writer.commit();
    }
    save::save(*core_of(replay), files, kDirectory, {}, {});
    std::size_t sum = 0;
    for (const auto& chunk : CopiedCheckpoint(files, kDirectory).chunks) {
      sum += chunk.second.size();
    }
    return sum;
  };
  EXPECT_LT(bytes(true), bytes(false) / 10);
}

TEST_P(CompressedCheckpoint, OfOtherFieldsIsAMismatch) {
  const ScratchDirectory directory;
  Schema packed;
  packed.compress(packed.observation<std::uint8_t>("frame", {600}));
  ReplayBuffer(packed, options_).save(directory.path());
  Schema plain;
  plain.observation<std::uint8_t>("frame", {600});
  ReplayBuffer other(plain, options_);
  expect_refusal<CheckpointError>([&] { other.restore(directory.path()); },
                                  {"compressed observation 'frame'", "where this buffer has"});
}

/// In the checkpoint, the place of one row's frame is that of the row before.
TEST_P(CompressedCheckpoint, WithFramesThatOverlapIsRefused) {
  Schema schema;
  const auto frame = schema.observation<std::uint8_t>("frame", {600});
  schema.compress(frame);
  ReplayBuffer replay(schema, options_);
  Writer writer = replay.writer();
  writer.begin_episode();
  std::ranges::fill(writer.now(frame), std::uint8_t{1});
  for (std::uint8_t i = 0; i < 20; ++i) {
    std::ranges::fill(writer.next(frame), i);
    writer.commit();
  }
  MemoryFileSystem source;
  save::save(*core_of(replay), source, kDirectory, {}, {});
  CopiedCheckpoint bad(source, kDirectory);
  const std::size_t stride = core_of(replay)->store().row_stride();
  std::byte* const ref = bad.chunks[0].second.data() +
                         core_of(replay)->chunk_layout().compressed().front().offset + 3 * stride;
  std::memcpy(ref, ref - stride, sizeof(storage::FrameRef));
  MemoryFileSystem files;
  bad.write(files, kDirectory);
  expect_refusal<CheckpointError>([&] { (void)save::load(files, kDirectory, {}, nullptr); },
                                  {"row 3: field 'frame' cannot be decompressed"});
}

/// The damaged checkpoints have correct checksums.
TEST_P(CompressedCheckpoint, IsRefusedOrHarmlessWhereItIsDamaged) {
  MemoryFileSystem source;
  Rng rng(5);
  {
    ReplayBuffer replay(world_.schema(), options_);
    Writer first = replay.writer();
    Writer second = replay.writer();
    append(world_, first, 140, rng);
    append(world_, second, 25, rng);
    save::save(*core_of(replay), source, kDirectory, {}, {});
  }
  const CopiedCheckpoint good(source, kDirectory);
  std::size_t refused = 0;
  const std::size_t rounds = scaled(400, 40);
  for (std::size_t round = 0; round < rounds; ++round) {
    CopiedCheckpoint bad = good;
    CopiedCheckpoint::Contents& contents = bad.chunks[rng.below(bad.chunks.size())].second;
    const std::size_t at = rng.below(contents.size());
    switch (rng.below(4)) {
      case 0:
        contents.resize(at);
        break;
      case 1:
        contents.resize(contents.size() + 1 + rng.below(40), std::byte{1});
        break;
      case 2:
        contents[at] ^= static_cast<std::byte>(1U << rng.below(8));
        break;
      default:
        const std::uint64_t number = rng.next() >> rng.below(64);
        std::memcpy(contents.data() + std::min(at, contents.size() - sizeof(number)), &number,
                    sizeof(number));
    }
    MemoryFileSystem target;
    bad.write(target, kDirectory);
    ReplayBuffer loaded(world_.schema(), options_);
    try {
      core_of(loaded) = save::load(target, kDirectory, {}, nullptr).core;
    } catch (const CheckpointError&) {
      ++refused;
      continue;
    }
    Sampler sampler = loaded.sampler({.resume = std::nullopt});
    ASSERT_TRUE(sampler.sample(64));
    Writer writer = loaded.writer();
    append(world_, writer, 30, rng);
    ASSERT_TRUE(sampler.sample(64));
  }
  EXPECT_GT(refused, rounds / 4);
}

}  // namespace
}  // namespace reprise::test
