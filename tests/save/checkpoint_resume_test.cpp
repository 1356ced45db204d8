#include "../checkpoint/copied_checkpoint.hpp"
#include "../record/memory_file_system.hpp"
#include "save/save.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/test.hpp"

/// The writers of a loaded buffer continue the chunks and the episode numbers of the saved writers.
namespace reprise::test {
namespace {

void save_and_restore(NumberedBuffer& line) {
  MemoryFileSystem files;
  save::save(*core_of(line.replay), files, kDirectory, {}, {});
  core_of(line.replay) = save::load(files, kDirectory, {}, core_of(line.replay).get()).core;
}

/// An open chunk that is continued after a load has keys of two generations. It cannot have a
/// third, so the next load has to close it.
TEST(CheckpointResume, KeysOfAnOpenChunkStayValidOverManyLoads) {
  NumberedBuffer line(SmallOptions{.chunk_steps = 32});
  std::map<std::uint64_t, ItemKey> keys;
  for (std::uint64_t round = 0; round < 5; ++round) {
    SCOPED_TRACE(testing::Message() << "after " << round << " loads");
    Writer writer = line.replay.writer();
    line.append_many(writer, 10 * round, 3);
    line.append(writer, 10 * round + 3, End::Truncated);
    std::map<std::uint64_t, ItemKey> now = line.keys();
    EXPECT_EQ(now.size(), 4 * (round + 1));
    for (const auto& [number, key] : keys) {
      EXPECT_EQ(now[number], key) << "step " << number;
    }
    keys = std::move(now);
    save_and_restore(line);
  }
}

TEST(CheckpointResume, CountersGoOn) {
  NumberedBuffer line;
  line.append_many(0, 30);
  std::vector<ItemKey> keys = line.key_list();
  line.append_many(30, 169);
  line.append(199, End::Truncated);
  (void)line.keys();
  line.append_many(200, 19);
  line.append(219, End::Truncated);
  keys.push_back(line.keys().rbegin()->second);
  const std::vector<float> ones(keys.size(), 1.0F);
  line.replay.update_priorities(keys, ones);
  const Stats before = line.replay.stats();
  save_and_restore(line);
  const Stats after = line.replay.stats();
  for (const auto counter :
       {&Stats::committed_steps, &Stats::evicted_steps, &Stats::sampled_items,
        &Stats::sampled_batches, &Stats::applied_updates, &Stats::stale_updates,
        &Stats::closed_chunks, &Stats::writer_ingests}) {
    EXPECT_GT(before.*counter, 0U);
    EXPECT_EQ(after.*counter, before.*counter);
  }
  EXPECT_EQ(after.resident_steps, before.resident_steps);
  EXPECT_EQ(after.items, before.items);
}

TEST(CheckpointResume, AChangedRatioGoesOnWithItsBalance) {
  SampleToInsertRatio ratio{.samples_per_insert = 4.0, .min_size = 1, .error_buffer = 64.0};
  NumberedBuffer line(SmallOptions{.capacity_steps = 1000, .rate_limiter = ratio});
  {
    Writer writer = line.replay.writer();
    line.append_many(writer, 0, 10);
    line.replay.set_samples_per_insert(0.5);
    line.append_many(writer, 10, 20);
  }
  ASSERT_TRUE(as_lvalue(line.replay.sampler()).sample(8, kNoWait));
  MemoryFileSystem files;
  save::save(*core_of(line.replay), files, kDirectory, {}, {});
  const auto balance_in = [&](const buffer::BufferCore* like) {
    const auto core = save::load(files, kDirectory, {}, like).core;
    EXPECT_EQ(std::get<SampleToInsertRatio>(core->options().rate_limiter).samples_per_insert,
              ratio.samples_per_insert);
    return core->limiter().balance();
  };
  for (const buffer::BufferCore* const like :
       {static_cast<const buffer::BufferCore*>(nullptr),
        static_cast<const buffer::BufferCore*>(core_of(line.replay).get())}) {
    const RatioBalance back = balance_in(like);
    EXPECT_EQ(back.samples_per_insert, 0.5);
    // Of the 10 steps before the change one is min_size; each step after the change counts 0.5.
    EXPECT_EQ(back.ahead, 8 - 4.0 * 9 - 0.5 * 20);
  }
}

TEST(CheckpointResume, AnotherLimiterThanTheSavedOneBeginsInBalance) {
  for (const RateLimiter& saved :
       {RateLimiter(MinSize{}), RateLimiter(SampleToInsertRatio{.samples_per_insert = 0.5})}) {
    NumberedBuffer line(SmallOptions{.capacity_steps = 1000, .rate_limiter = saved});
    line.append_many(0, 30);
    ASSERT_TRUE(as_lvalue(line.replay.sampler()).sample(8, kNoWait));
    MemoryFileSystem files;
    save::save(*core_of(line.replay), files, kDirectory, {}, {});
    for (const std::size_t min_size : {1U, 100U}) {
      NumberedBuffer other(
          SmallOptions{.capacity_steps = 1000,
                       .rate_limiter = SampleToInsertRatio{
                           .samples_per_insert = 2.0, .min_size = min_size, .error_buffer = 64.0}});
      std::shared_ptr<buffer::BufferCore>& core = core_of(other.replay);
      core = save::load(files, kDirectory, {}, core.get()).core;
      // The balance is that of a buffer in which samples kept up once min_size steps were there.
      const double ahead = min_size == 1 ? 0.0 : 2.0 * (100.0 - 30.0);
      EXPECT_EQ(core->limiter().balance().samples_per_insert, 2.0);
      EXPECT_EQ(core->limiter().balance().ahead, ahead);
      MemoryFileSystem again;
      save::save(*core, again, kDirectory, {}, {});
      const auto loaded = save::load(again, kDirectory, {}, nullptr).core;
      EXPECT_EQ(loaded->limiter().balance().ahead, ahead) << "the next load goes on from there";
    }
  }
}

/// A save reads the values of a chunk's items from the selectors in blocks.
TEST(CheckpointResume, AChunkOfManyItemsKeepsThePriorityOfEach) {
  NumberedBuffer line(
      SmallOptions{.capacity_steps = 2000, .max_times_sampled = 1000, .chunk_steps = 2000});
  line.append_many(0, 1500, [&](std::uint64_t i) { return static_cast<float>(1 + i % 97); });
  const auto before = line.probabilities(40'000);
  EXPECT_GT(before.size(), 1400U);
  save_and_restore(line);
  EXPECT_EQ(line.probabilities(40'000), before);
}

/// While the save writes the first chunk, other chunks are evicted and filled again. The save
/// leaves these chunks out.
TEST(CheckpointResume, WhatIsEvictedBeforeItIsWrittenIsLeftOutAndCounted) {
  NumberedBuffer line;
  line.append_many(0, 99);
  line.append(99, End::Truncated);
  const std::vector<std::uint64_t> before = line.numbers();
  MemoryFileSystem files;
  std::size_t written = 0;
  SaveOptions options;
  options.progress = [&](const SaveProgress&) {
    if (written++ == 0) {
      line.append_many(1000, 150);
      (void)line.replay.size();
    }
  };
  const SaveResult saved = save::save(*core_of(line.replay), files, kDirectory, options, {});
  core_of(line.replay) = save::load(files, kDirectory, {}, nullptr).core;
  const Stats stats = line.replay.stats();
  EXPECT_EQ(stats.committed_steps, 100U);
  EXPECT_EQ(stats.evicted_steps + stats.resident_steps, 100U);
  const std::vector<std::uint64_t> left = line.numbers();
  EXPECT_LT(left.size(), before.size());
  EXPECT_EQ(left.size() + saved.left_out_steps, before.size());
  EXPECT_TRUE(std::ranges::includes(before, left));
}

/// A writer may be writing the headers of the rows after the last decided item, and the columns of
/// the last row that a window reads.
TEST(CheckpointResume, NothingIsSavedThatAWriterMayBeWriting) {
  NumberedBuffer line(SmallOptions{.window = Transitions{.n_step = 3}});
  line.append_many(0, 300);  // Every row is reused.
  line.writer().now(line.action) = ~std::uint64_t{0};
  MemoryFileSystem files;
  save::save(*core_of(line.replay), files, kDirectory, {}, {});
  const CopiedCheckpoint copy(files, kDirectory);
  const std::size_t stride = core_of(line.replay)->store().row_stride();
  const std::size_t observations_end = core_of(line.replay)->layout().observations_end();
  const auto all_zero = [](record::Bytes bytes) {
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
  };
  std::size_t behind = 0;
  for (const auto& [id, contents] : copy.chunks) {
    const record::Bytes rows = record::Bytes(contents).first(id.rows * stride);
    const std::size_t ingested = (contents.size() - rows.size()) / sizeof(float);
    for (std::size_t row = ingested; !id.closed && row < id.rows; ++row, ++behind) {
      const record::Bytes bytes = rows.subspan(row * stride, stride);
      EXPECT_TRUE(all_zero(bytes.first(sizeof(storage::ItemHeader)))) << "header of row " << row;
      if (row + 1 == id.rows) {
        EXPECT_TRUE(all_zero(bytes.subspan(observations_end))) << "columns of row " << row;
      }
    }
  }
  EXPECT_GT(behind, 0U);
}

/// Changes the number of blocks of episode numbers in a checkpoint from `from` to `to`.
void set_episode_blocks(MemoryFileSystem& files, std::uint64_t from, std::uint64_t to) {
  CopiedCheckpoint copy(files, kDirectory);
  // The number is stored after the version and seven other counts.
  std::byte* const at = copy.states.at("buffer").data() + sizeof(std::uint32_t) + 7 * sizeof(from);
  ASSERT_EQ(std::memcmp(at, &from, sizeof(from)), 0);
  std::memcpy(at, &to, sizeof(to));
  copy.write(files, kDirectory);
}

/// A save beside writers may produce such a checkpoint, if a writer takes its first block of
/// episode numbers after the save has written the number of blocks, and before it writes the
/// writer's position.
TEST(CheckpointResume, ABlockOfEpisodesThatWasNotCountedIsNotGivenOutAgain) {
  NumberedBuffer line;
  Writer writer = line.replay.writer();
  line.append(writer, 0, End::Truncated);
  MemoryFileSystem files;
  save::save(*core_of(line.replay), files, kDirectory, {}, {});
  set_episode_blocks(files, 1, 0);
  core_of(line.replay) = save::load(files, kDirectory, {}, nullptr).core;
  Writer first = line.replay.writer();
  Writer second = line.replay.writer();
  line.append(first, 1, End::Truncated);
  line.append(second, 2, End::Truncated);
  Sampler sampler = line.replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(64, kNoWait));
  std::map<std::uint64_t, std::uint64_t> step_of;
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const auto [at, fresh] = step_of.emplace(batch->episode_ids()[i], batch->now(line.id)[i]);
    EXPECT_EQ(at->second, batch->now(line.id)[i]) << "two in episode " << at->first;
  }
  EXPECT_EQ(step_of.size(), 3U);
}

}  // namespace
}  // namespace reprise::test
