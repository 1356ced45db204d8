#include <reprise/reprise.hpp>

#include "../checkpoint/copied_checkpoint.hpp"
#include "../checkpoint/memory_file_system.hpp"
#include "../support/core_of.hpp"
#include "../support/line.hpp"
#include "api/checkpoint.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

/// What a loaded buffer goes on with: the chunks and the episode numbers of the writers before.
namespace reprise::test {
namespace {

constexpr const char* kDirectory = "checkpoints";

void save_and_restore(Line& line) {
  MemoryFileSystem files;
  detail::save(*core_of(line.replay), files, kDirectory, {}, {});
  core_of(line.replay) = detail::load(files, kDirectory, {}, core_of(line.replay).get());
}

/// An open chunk that goes on after a load has keys of two generations. It cannot have those of a
/// third: the next load has to close it.
TEST(CheckpointResume, KeysOfAnOpenChunkStayValidOverManyLoads) {
  Options options = small_options();
  options.chunk_steps = 32;
  Line line(options);
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

/// Sets the count of blocks of episode numbers that a checkpoint holds.
void set_episode_blocks(MemoryFileSystem& files, std::uint64_t from, std::uint64_t to) {
  CopiedCheckpoint copy(files, kDirectory);
  // Behind the version and seven other counts.
  std::byte* const at = copy.states.at("buffer").data() + sizeof(std::uint32_t) + 7 * sizeof(from);
  ASSERT_EQ(std::memcmp(at, &from, sizeof(from)), 0);
  std::memcpy(at, &to, sizeof(to));
  copy.write(files, kDirectory);
}

/// As a save beside writers may find it: a writer takes its first block after the count of blocks
/// was written, and before its seat is.
TEST(CheckpointResume, ABlockOfEpisodesThatWasNotCountedIsNotGivenOutAgain) {
  Line line;
  Writer writer = line.replay.writer();
  line.append(writer, 0, End::Truncated);
  MemoryFileSystem files;
  detail::save(*core_of(line.replay), files, kDirectory, {}, {});
  set_episode_blocks(files, 1, 0);
  core_of(line.replay) = detail::load(files, kDirectory, {}, nullptr);
  Writer first = line.replay.writer();
  Writer second = line.replay.writer();
  line.append(first, 1, End::Truncated);
  line.append(second, 2, End::Truncated);
  Sampler sampler = line.replay.sampler();
  const SampleResult batch = sampler.sample(64, kAtOnce);
  ASSERT_TRUE(batch);
  std::map<std::uint64_t, std::uint64_t> step_of;
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const auto [at, fresh] = step_of.emplace(batch->episode_ids()[i], batch->now(line.id)[i]);
    EXPECT_EQ(at->second, batch->now(line.id)[i]) << "two in episode " << at->first;
  }
  EXPECT_EQ(step_of.size(), 3U);
}

}  // namespace
}  // namespace reprise::test
