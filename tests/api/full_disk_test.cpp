#include "testing/faults/full_disk.hpp"

#include "api/mapped_buffers.hpp"
#include "buffer/buffer_core.hpp"
#include "process/raw_guest.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

#include <cerrno>

// Tests of buffers whose rows are in a mapped file on a full disk.

namespace reprise::test {
namespace {

class FullDisk : public testing::Test {
 protected:
  void TearDown() override { restore_disk_space(); }
};

/// Options of one shard whose items are single steps.
Options options_in_directory(const ScratchDirectory& directory) {
  Options options = options_in(MappedFile{directory.path()});
  options.window = Transitions{};
  options.shards = 1;
  return options;
}

TEST_F(FullDisk, IsAnErrorOfTheBuffersConstructor) {
  const ScratchDirectory directory;
  const auto make = [&] { const NumberedBuffer line(options_in(MappedFile{directory.path()})); };
  set_free_disk_bytes(4096);
  EXPECT_EQ(error_of(make, directory.path()), ENOSPC);
  restore_disk_space();
  EXPECT_EQ(error_of(make, directory.path()), 0);
}

/// Appends an episode of one step. The episode takes two rows, so 400 of them need more chunks than
/// the 400 steps of a long episode.
CommitStatus append_one_step_episode(NumberedBuffer& line, Writer& writer, std::uint64_t number) {
  writer.begin_episode();
  writer.now(line.id) = number;
  return line.append(writer, number, End::Terminated);
}

TEST_F(FullDisk, IsAnErrorOfTheStepThatFindsNoRoomAndCanBeCommittedLater) {
  const ScratchDirectory directory;
  NumberedBuffer line(options_in_directory(directory));
  Writer writer = line.replay.writer();
  set_free_disk_bytes(2 * line.replay.stats().chunk_bytes);
  std::uint64_t number = 0;
  int error = 0;
  while (error == 0 && number < 400) {
    error = error_of(
        [&] { ASSERT_EQ(append_one_step_episode(line, writer, number), CommitStatus::Committed); },
        directory.path());
    number += error == 0 ? 1 : 0;
  }
  EXPECT_EQ(error, ENOSPC);
  ASSERT_GT(number, 200U);
  ASSERT_LT(number, 400U);
  EXPECT_EQ(line.replay.size(), number);
  EXPECT_EQ(line.numbers(), number_range(0, number));
  // The same step again, while the disk is still full.
  EXPECT_EQ(error_of([&] { (void)writer.commit(End::Terminated); }, directory.path()), ENOSPC);
  restore_disk_space();
  EXPECT_EQ(writer.commit(End::Terminated), CommitStatus::Committed);
  for (std::uint64_t more = number + 1; more < 1000; ++more) {
    ASSERT_EQ(append_one_step_episode(line, writer, more), CommitStatus::Committed);
  }
  EXPECT_EQ(line.replay.size(), 400U);
  EXPECT_EQ(line.numbers(), number_range(600, 1000));
}

TEST_F(FullDisk, IsAnErrorOfAGuestsCommitThatWaitsForRoom) {
  const ScratchDirectory directory;
  SharedNumberedBuffer line(options_in_directory(directory), {.ring_steps = 8});
  Writer writer = line.guest.writer({.timeout = 200ms});
  set_free_disk_bytes(2 * line.replay.stats().chunk_bytes);
  std::uint64_t number = 0;
  int error = 0;
  while (error == 0 && number < 400) {
    try {
      // The commit may also time out, because the ring has no room while the host is slow.
      number += append_one_step_episode(line, writer, number) == CommitStatus::Committed ? 1U : 0U;
    } catch (const std::system_error& full) {
      error = full.code().value();
    }
  }
  EXPECT_EQ(error, ENOSPC);
  restore_disk_space();
  writer.set_timeout(kNoTimeout);
  EXPECT_EQ(writer.commit(End::Terminated), CommitStatus::Committed);
  yield_while([&] { return line.replay.size() != number + 1; });
  EXPECT_EQ(line.numbers(), number_range(0, number + 1));
}

TEST_F(FullDisk, HoldsAGuestWhoseEpisodeCannotEnd) {
  const ScratchDirectory directory;
  Options options = options_in(MappedFile{directory.path()});
  options.shards = 1;
  // A buffer of the same options shows how many steps fit on a disk with room for one more chunk:
  // `short_episodes` episodes of one step, and then an episode of `long_steps` steps.
  std::uint64_t short_episodes = 0;
  std::uint64_t long_steps = 0;
  {
    NumberedBuffer line(options);
    Writer writer = line.replay.writer();
    set_free_disk_bytes(0);
    while (short_episodes < 300 &&
           error_of([&] { (void)append_one_step_episode(line, writer, 0); }, "") == 0) {
      ++short_episodes;
    }
    set_free_disk_bytes(line.replay.stats().chunk_bytes);
    ASSERT_EQ(writer.commit(End::Terminated), CommitStatus::Committed);
    ++short_episodes;
    while (long_steps < 100 && error_of([&] { (void)line.append(writer, 0); }, "") == 0) {
      ++long_steps;
    }
    restore_disk_space();
  }
  ASSERT_LT(short_episodes + long_steps, 400U);
  NumberedBuffer line(options);
  Hosted hosted(line.replay, {.ring_steps = 1024});
  set_free_disk_bytes(line.replay.stats().chunk_bytes);
  hosted.serve();
  const RawWriter raw(hosted.address());
  for (std::uint64_t episode = 0; episode < short_episodes; ++episode) {
    raw.header(2 * episode, {.end = static_cast<std::uint8_t>(End::Terminated), .first = 1});
  }
  for (std::uint64_t step = 0; step < long_steps; ++step) {
    raw.header(2 * short_episodes + step, {.first = step == 0 ? std::uint8_t{1} : std::uint8_t{0}});
  }
  const std::uint64_t steps = 2 * short_episodes + long_steps;
  raw.header(steps, {.kind = process::StepHeader::Kind::Cut});
  raw.words().publish(steps + 1);
  const auto held = [&] {
    return static_cast<process::HoldReason>(
        process::RingLayout::shared(raw.memory).held.load(base::Order::Relaxed));
  };
  yield_while([&] { return held() == process::HoldReason::No && raw.words().consumed() <= steps; });
  EXPECT_EQ(held(), process::HoldReason::ByDisk);
  EXPECT_EQ(raw.words().consumed(), steps);
  restore_disk_space();
  yield_while([&] { return raw.words().consumed() <= steps; });
  EXPECT_EQ(line.replay.stats().committed_steps, short_episodes + long_steps);
}

/// Ends a wait when it is asked for the second time, 50 ms after the first.
class WaitOnceHook final : public WaitHook {
 public:
  bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
    return waited.count() == 0;
  }
};

TEST_F(FullDisk, IsReportedAsStoppedIfTheHookEndsTheWait) {
  const ScratchDirectory directory;
  NumberedBuffer line(options_in_directory(directory));
  WaitOnceHook hook;
  Writer writer = line.replay.writer({.hook = &hook});
  set_free_disk_bytes(0);
  std::uint64_t number = 0;
  CommitStatus status = CommitStatus::Committed;
  for (; status == CommitStatus::Committed && number < 400; ++number) {
    ASSERT_EQ(error_of([&] { status = append_one_step_episode(line, writer, number); }, ""), 0);
  }
  EXPECT_EQ(status, CommitStatus::Stopped);
  restore_disk_space();
  EXPECT_EQ(writer.commit(End::Terminated), CommitStatus::Committed);
}

/// Imitates another writer that gets the last room of the disk: in the middle of a wait, it takes
/// all chunks that were never used, and keeps them until the wait for the full disk has timed out.
/// It returns the chunks when it is asked again.
class HoldsLastChunksHook final : public WaitHook {
 public:
  explicit HoldsLastChunksHook(shard::ChunkPool& pool) : pool_(pool) {}
  bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
    if (waited.count() == 0) {
      return true;
    }
    if (taken_.empty()) {
      restore_disk_space();
      int error = 0;
      for (std::uint32_t chunk = pool_.take_fresh(error); chunk != storage::kNil;
           chunk = pool_.take_fresh(error)) {
        taken_.push_back(chunk);
      }
      set_free_disk_bytes(0);
      std::this_thread::sleep_for(kLongerThanTheDiskWait);
      return !taken_.empty();
    }
    for (const std::uint32_t chunk : taken_) {
      pool_.reclaim(chunk);
    }
    return true;
  }

 private:
  static constexpr auto kLongerThanTheDiskWait = 150ms;
  shard::ChunkPool& pool_;
  std::vector<std::uint32_t> taken_;
};

TEST_F(FullDisk, DoesNotEndACommitWithoutATimeoutWhileAnotherWriterHasTheChunk) {
  const ScratchDirectory directory;
  NumberedBuffer line(options_in_directory(directory));
  HoldsLastChunksHook hook(core_of(line.replay)->shards()[0].chunks());
  Writer writer = line.replay.writer({.hook = &hook});
  set_free_disk_bytes(0);
  for (std::uint64_t number = 0; number < 400; ++number) {
    CommitStatus status = CommitStatus::Stopped;
    ASSERT_EQ(error_of([&] { status = append_one_step_episode(line, writer, number); }, ""), 0);
    ASSERT_EQ(status, CommitStatus::Committed) << "of step " << number;
  }
  const WaitStats waits = line.replay.stats().writers_for_chunk;
  EXPECT_EQ(waits.waits, 1U);
  EXPECT_EQ(waits.timeouts, 0U);
}

TEST_F(FullDisk, LosesNoCommittedStepIfTheNextEpisodeCannotBegin) {
  const ScratchDirectory directory;
  Options options = options_in(MappedFile{directory.path()});
  options.shards = 1;
  NumberedBuffer line(options);
  Writer writer = line.replay.writer();
  const auto until_full = [&](std::uint64_t number, auto&& append) {
    while (number < 400 && error_of([&] { ASSERT_EQ(append(number), CommitStatus::Committed); },
                                    directory.path()) == 0) {
      ++number;
    }
    return number;
  };
  set_free_disk_bytes(0);
  std::uint64_t number =
      until_full(0, [&](std::uint64_t n) { return append_one_step_episode(line, writer, n); });
  ASSERT_LT(number, 300U);
  // The disk has room for one more chunk, which one episode fills. The windows of its last two
  // steps are not complete then.
  set_free_disk_bytes(line.replay.stats().chunk_bytes);
  ASSERT_EQ(writer.commit(End::Terminated), CommitStatus::Committed);
  ++number;
  writer.begin_episode();
  writer.now(line.id) = number;
  number =
      until_full(number, [&](std::uint64_t n) { return line.append(writer, n, End::Continue); });
  ASSERT_GT(writer.episode_steps(), 10U);
  ASSERT_LT(number, 400U);
  EXPECT_EQ(error_of([&] { writer.begin_episode(); }, directory.path()), ENOSPC);
  restore_disk_space();
  writer.begin_episode();
  EXPECT_EQ(line.replay.size(), number);
  EXPECT_EQ(line.numbers(), number_range(0, number));
}

TEST_F(FullDisk, DoesNotStopABufferThatHasAllItsChunks) {
  const ScratchDirectory directory;
  NumberedBuffer line(options_in(MappedFile{directory.path()}));
  line.append_many(0, 1000);
  set_free_disk_bytes(0);
  line.append_many(1000, 2000);
  EXPECT_EQ(line.replay.size(), 400U);
}

TEST_F(FullDisk, InACommitOfAVectorWriterRepeatsNoStepOfEarlierEnvironments) {
  const ScratchDirectory directory;
  Options options = options_in_directory(directory);
  options.capacity_steps = 64;
  NumberedBuffer line(options);
  VectorWriter writers(line.replay, 3);
  const std::array<End, 3> ends{};
  const auto ids = [](std::uint64_t step) {
    return std::array<std::uint64_t, 3>{step, 1000 + step, 2000 + step};
  };
  std::uint64_t step = 0;
  const auto write = [&] {
    writers.now(line.id, ids(step));
    writers.now(line.action, ids(step));
    writers.now(line.reward, std::array<float, 3>{});
    writers.next(line.id, ids(step + 1));
  };
  const auto commit = [&](std::span<const float> priorities) {
    return error_of([&] { ASSERT_EQ(writers.commit(ends, priorities), CommitStatus::Committed); },
                    directory.path());
  };
  // The first environment is a few steps ahead of the others, so it takes the last chunk that fits
  // on the disk.
  for (std::uint64_t i = 500; i < 504; ++i) {
    writers[0].now(line.id) = i;
    ASSERT_EQ(line.append(writers[0], i), CommitStatus::Committed);
  }
  set_free_disk_bytes(0);
  int error = 0;
  for (; error == 0 && step < 40; step += error == 0 ? 1 : 0) {
    write();
    error = commit(std::array{1.0F, 1.0F, 1.0F});
  }
  ASSERT_EQ(error, ENOSPC);
  const std::uint64_t before = 4 + 3 * step;
  EXPECT_EQ(line.replay.stats().committed_steps, before + 1);
  EXPECT_EQ(writers[0].episode_steps(), 4 + step + 1);
  EXPECT_EQ(writers[1].episode_steps(), step);
  const std::array priorities{5.0F, 6.0F, 7.0F};
  EXPECT_EQ(commit(priorities), ENOSPC) << "the disk is still full";
  EXPECT_EQ(line.replay.stats().committed_steps, before + 1)
      << "the first environment's step is not repeated";
  restore_disk_space();
  EXPECT_EQ(commit(priorities), 0);
  EXPECT_EQ(line.replay.stats().committed_steps, before + 3);
}

TEST_F(FullDisk, AtARestoreLeavesTheBufferAsItWas) {
  const ScratchDirectory directory;
  const ScratchDirectory checkpoint;
  NumberedBuffer line(options_in(MappedFile{directory.path()}));
  {
    Writer writer = line.replay.writer();
    line.append_many(writer, 0, 300);
  }
  line.replay.save(checkpoint.path());
  set_free_disk_bytes(line.replay.stats().chunk_bytes);
  EXPECT_EQ(error_of([&] { line.replay.restore(checkpoint.path()); }, directory.path()), ENOSPC);
  EXPECT_EQ(line.numbers(), number_range(0, 300));
  EXPECT_EQ(error_of(
                [&] {
                  (void)ReplayBuffer::load(checkpoint.path(),
                                           {.storage = MappedFile{directory.path()}});
                },
                directory.path()),
            ENOSPC);
}

}  // namespace
}  // namespace reprise::test
