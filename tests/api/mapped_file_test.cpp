#include <reprise/reprise.hpp>

#include "../checkpoint/scratch_directory.hpp"
#include "../support/child.hpp"
#include "../support/conformance.hpp"
#include "../support/core_of.hpp"
#include "../support/full_disk.hpp"
#include "../support/line.hpp"
#include "../support/replayed.hpp"
#include "../support/scale.hpp"
#include "buffer/buffer_core.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <variant>
#include <vector>

// Rows in a mapped file: the same buffer, and what only a file can do.

namespace reprise::test {
namespace {

/// Small chunks in few shards, so that all of them are used and used again.
Options options_in(const Storage& storage, const Window& window = Transitions{.n_step = 3}) {
  return {.capacity_steps = 400,
          .window = window,
          .selectors = {kRaw, Uniform{}},
          .storage = storage,
          .max_writers = 4,
          .chunk_steps = 24,
          .shards = 3,
          .key_tag = 7};
}

std::size_t entries_of(const std::string& directory) {
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) {
    ++entries;
  }
  return entries;
}

/// The errno value of the `std::system_error` that a call throws, and that it names what it should.
int error_of(const std::function<void()>& call, const std::string& named) {
  try {
    call();
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
    return error.code().value();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "threw something else: " << error.what();
    return -1;
  }
  return 0;
}

class FullDisk : public testing::Test {
 protected:
  void TearDown() override { disk_has_room(); }
};

TEST(MappedFileStorage, GivesTheBatchesOfOneInMemoryBitForBit) {
  const ScratchDirectory directory;
  for (const Window& window : std::vector<Window>{
           Transitions{}, Transitions{.n_step = 3, .frame_stack = 2},
           Sequences{.length = 5, .period = 2, .burn_in = 1, .end = SequenceEnd::Overlap}}) {
    for (std::uint64_t seed = 1; seed <= scaled(10, 2); ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      Replayed memory(options_in(Memory{}, window), 3, seed);
      Replayed file(options_in(MappedFile{directory.path()}, window), 3, seed);
      std::vector<Replayed::Noted> in_memory;
      std::vector<Replayed::Noted> in_file;
      memory.steps(2000, &in_memory);
      file.steps(2000, &in_file);
      ASSERT_GT(in_memory.size(), 30U);
      ASSERT_EQ(in_memory, in_file);
    }
  }
}

class ConformanceInAFile : public testing::TestWithParam<NamedWindow> {};

INSTANTIATE_TEST_SUITE_P(MappedFileStorage, ConformanceInAFile, testing::ValuesIn(all_windows()),
                         [](const auto& test) { return test.param.name; });

TEST_P(ConformanceInAFile, KeepsWhatEachPartPromises) {
  const ScratchDirectory directory;
  const auto selectors = all_selectors();
  const auto removers = all_removers();
  const auto limiters = all_limiters();
  for (std::uint64_t seed = 1; seed <= scaled(40, 8) && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Conformance({selectors[seed % selectors.size()], removers[seed % removers.size()].remover,
                 GetParam().strategy, limiters[seed % limiters.size()].strategy,
                 MappedFile{directory.path()}, false, false, seed % 2 == 0},
                seed)
        .run(150);
  }
}

TEST(MappedFileStorage, LeavesNothingInTheDirectoryAndTakesAnyNumberOfBuffers) {
  const ScratchDirectory directory;
  {
    Line first(options_in(MappedFile{directory.path()}));
    Line second(options_in(MappedFile{directory.path()}));
    Line third(options_in(MappedFile{directory.path() + "/rows"}));
    for (Line* const line : {&first, &second, &third}) {
      Writer writer = line->replay.writer();
      line->append_many(writer, 0, 100);
    }
    EXPECT_EQ(entries_of(directory.path()), 0U);
    EXPECT_EQ(first.numbers(), second.numbers());
    EXPECT_EQ(std::get<MappedFile>(third.replay.options().storage).path,
              directory.path() + "/rows");
  }
  EXPECT_EQ(entries_of(directory.path()), 0U);
}

TEST(MappedFileStorage, IsReportedByStatistics) {
  const ScratchDirectory directory;
  Line memory(options_in(Memory{}));
  Line file(options_in(MappedFile{directory.path()}));
  const Stats before = file.replay.stats();
  // What the capacity takes is set aside from the beginning.
  EXPECT_GE(before.file_bytes, 400 / 24 * before.chunk_bytes);
  for (Line* const line : {&memory, &file}) {
    Writer writer = line->replay.writer();
    line->append_many(writer, 0, 1000);
  }
  const Stats in_memory = memory.replay.stats();
  const Stats in_file = file.replay.stats();
  EXPECT_EQ(in_memory.file_bytes, 0U);
  EXPECT_GE(in_file.file_bytes, in_file.chunks_touched * in_file.chunk_bytes);
  EXPECT_EQ(in_memory.touched_bytes - in_file.touched_bytes,
            in_memory.chunks_touched * in_memory.chunk_bytes);
  EXPECT_EQ(in_memory.reserved_bytes, in_file.reserved_bytes);
}

TEST(MappedFileStorage, GivesItsSpaceBackWhenTheProcessIsKilled) {
  const ScratchDirectory directory;
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Line line(options_in(MappedFile{directory.path()}));
    static_cast<void>(::write(ready[1], "x", 1));
    for (;;) {
      ::pause();
    }
  }
  ::close(ready[1]);
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(entries_of(directory.path()), 0U);
}

TEST(MappedFileStorage, ThatCannotBeSaysWhyAndWhere) {
  const ScratchDirectory directory;
  const auto make = [](const std::filesystem::path& path) {
    return [path] { const Line line(options_in(MappedFile{path})); };
  };
  EXPECT_THROW(make("")(), std::invalid_argument);
  const std::string missing = directory.path() + "/missing/rows";
  EXPECT_EQ(error_of(make(missing), missing), ENOENT);
  const std::string taken = directory.path() + "/taken";
  std::ofstream(taken) << "somebody's";
  EXPECT_EQ(error_of(make(taken), taken), EEXIST);
  EXPECT_EQ(std::filesystem::file_size(taken), 10U) << "it was touched";
  EXPECT_EQ(error_of(make(taken + "/rows"), taken), ENOTDIR);
  if (::geteuid() != 0) {
    std::filesystem::permissions(
        directory.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    EXPECT_EQ(error_of(make(directory.path()), directory.path()), EACCES);
    std::filesystem::permissions(directory.path(), std::filesystem::perms::owner_all);
  }
}

TEST_F(FullDisk, IsNoticedWhenTheBufferIsMade) {
  const ScratchDirectory directory;
  const auto make = [&] { const Line line(options_in(MappedFile{directory.path()})); };
  disk_has_room_for(4096);
  EXPECT_EQ(error_of(make, directory.path()), ENOSPC);
  disk_has_room();
  EXPECT_EQ(error_of(make, directory.path()), 0);
}

TEST(MappedFileStorage, AboveTheLimitOfFileSizesIsAnException) {
  const ScratchDirectory directory;
  expect_of_child([&]() -> std::string {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const int error = error_of([&] { const Line line(options_in(MappedFile{directory.path()})); },
                               directory.path());
    return error == EFBIG ? "" : "errno " + std::to_string(error);
  });
}

/// Single steps, each an episode of two rows: more chunks than long episodes take.
CommitStatus append_alone(Line& line, Writer& writer, std::uint64_t number) {
  writer.begin_episode();
  writer.now(line.id) = number;
  return line.append(writer, number, End::Terminated);
}

TEST_F(FullDisk, RefusesTheStepThatFindsNoRoomAndTakesItLater) {
  const ScratchDirectory directory;
  Options options = options_in(MappedFile{directory.path()});
  options.window = Transitions{};
  options.shards = 1;
  Line line(options);
  Writer writer = line.replay.writer();
  disk_has_room_for(2 * line.replay.stats().chunk_bytes);
  std::uint64_t number = 0;
  int error = 0;
  while (error == 0 && number < 400) {
    error =
        error_of([&] { ASSERT_EQ(append_alone(line, writer, number), CommitStatus::Committed); },
                 directory.path());
    number += error == 0 ? 1 : 0;
  }
  EXPECT_EQ(error, ENOSPC);
  ASSERT_GT(number, 200U);
  ASSERT_LT(number, 400U);
  EXPECT_EQ(line.replay.size(), number);
  EXPECT_EQ(line.numbers(), numbers_between(0, number));
  // Still full.
  EXPECT_EQ(error_of([&] { static_cast<void>(writer.commit(End::Terminated)); }, directory.path()),
            ENOSPC);
  disk_has_room();
  EXPECT_EQ(writer.commit(End::Terminated), CommitStatus::Committed);
  for (std::uint64_t more = number + 1; more < 1000; ++more) {
    ASSERT_EQ(append_alone(line, writer, more), CommitStatus::Committed);
  }
  EXPECT_EQ(line.replay.size(), 400U);
  EXPECT_EQ(line.numbers(), numbers_between(600, 1000));
}

/// Against waiting when it is asked for the second time, 50 ms after the first.
class AgainstWaiting final : public WaitHook {
 public:
  bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
    return waited.count() == 0;
  }
};

TEST_F(FullDisk, IsNoErrorOfACommitWhoseHookEndsTheWait) {
  const ScratchDirectory directory;
  Options options = options_in(MappedFile{directory.path()});
  options.window = Transitions{};
  options.shards = 1;
  Line line(options);
  AgainstWaiting hook;
  Writer writer = line.replay.writer({.hook = &hook});
  disk_has_room_for(0);
  std::uint64_t number = 0;
  CommitStatus status = CommitStatus::Committed;
  for (; status == CommitStatus::Committed && number < 400; ++number) {
    ASSERT_EQ(error_of([&] { status = append_alone(line, writer, number); }, ""), 0);
  }
  EXPECT_EQ(status, CommitStatus::Stopped);
  disk_has_room();
  EXPECT_EQ(writer.commit(End::Terminated), CommitStatus::Committed);
}

/// Has all chunks that were never used while the patience with a full disk ends, as another writer
/// has one that asks the disk for room at that moment; gives them back when it is asked again.
class HasTheLastChunks final : public WaitHook {
 public:
  explicit HasTheLastChunks(shard::ChunkPool& pool) : pool_(pool) {}
  bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
    if (waited.count() == 0) {
      return true;
    }
    if (taken_.empty()) {
      disk_has_room();
      int error = 0;
      for (std::uint32_t chunk = pool_.take_fresh(error); chunk != storage::kNil;
           chunk = pool_.take_fresh(error)) {
        taken_.push_back(chunk);
      }
      disk_has_room_for(0);
      std::this_thread::sleep_for(kLongerThanThePatience);
      return !taken_.empty();
    }
    for (const std::uint32_t chunk : taken_) {
      pool_.reclaim(chunk);
    }
    return true;
  }

 private:
  static constexpr auto kLongerThanThePatience = std::chrono::milliseconds(150);
  shard::ChunkPool& pool_;
  std::vector<std::uint32_t> taken_;
};

TEST_F(FullDisk, IsNoTimeoutOfACommitWithoutOneWhileAnotherWriterHasTheChunk) {
  const ScratchDirectory directory;
  Options options = options_in(MappedFile{directory.path()});
  options.window = Transitions{};
  options.shards = 1;
  Line line(options);
  HasTheLastChunks hook(core_of(line.replay)->shards()[0].chunks());
  Writer writer = line.replay.writer({.hook = &hook});
  disk_has_room_for(0);
  for (std::uint64_t number = 0; number < 400; ++number) {
    CommitStatus status = CommitStatus::Stopped;
    ASSERT_EQ(error_of([&] { status = append_alone(line, writer, number); }, ""), 0);
    ASSERT_EQ(status, CommitStatus::Committed) << "of step " << number;
  }
  const WaitStats waits = line.replay.stats().writers_for_chunk;
  EXPECT_EQ(waits.waits, 1U);
  EXPECT_EQ(waits.timeouts, 0U);
}

TEST_F(FullDisk, LosesNoStepThatWasCommittedWhenTheNextEpisodeBegins) {
  const ScratchDirectory directory;
  Options options = options_in(MappedFile{directory.path()});
  options.shards = 1;
  Line line(options);
  Writer writer = line.replay.writer();
  const auto until_full = [&](std::uint64_t number, auto&& append) {
    while (number < 400 && error_of([&] { ASSERT_EQ(append(number), CommitStatus::Committed); },
                                    directory.path()) == 0) {
      ++number;
    }
    return number;
  };
  disk_has_room_for(0);
  std::uint64_t number =
      until_full(0, [&](std::uint64_t n) { return append_alone(line, writer, n); });
  ASSERT_LT(number, 300U);
  // One chunk more, which an episode fills; its last two steps are open then.
  disk_has_room_for(line.replay.stats().chunk_bytes);
  ASSERT_EQ(writer.commit(End::Terminated), CommitStatus::Committed);
  ++number;
  writer.begin_episode();
  writer.now(line.id) = number;
  number =
      until_full(number, [&](std::uint64_t n) { return line.append(writer, n, End::Continue); });
  ASSERT_GT(writer.episode_steps(), 10U);
  ASSERT_LT(number, 400U);
  EXPECT_EQ(error_of([&] { writer.begin_episode(); }, directory.path()), ENOSPC);
  disk_has_room();
  writer.begin_episode();
  EXPECT_EQ(line.replay.size(), number);
  EXPECT_EQ(line.numbers(), numbers_between(0, number));
}

TEST_F(FullDisk, DoesNotStopABufferThatHasItsChunks) {
  const ScratchDirectory directory;
  Line line(options_in(MappedFile{directory.path()}));
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 1000);
  disk_has_room_for(0);
  line.append_many(writer, 1000, 2000);
  EXPECT_EQ(line.replay.size(), 400U);
}

TEST_F(FullDisk, OfAVectorWriterIsToBeRepeatedAndThenSkipsWhoHasCommitted) {
  const ScratchDirectory directory;
  Options options = options_in(MappedFile{directory.path()});
  options.window = Transitions{};
  Line line(options);
  VectorWriter writers(line.replay, 3);
  disk_has_room_for(line.replay.stats().chunk_bytes);
  const std::array<End, 3> ends{End::Terminated, End::Terminated, End::Terminated};
  std::uint64_t rounds = 0;
  const auto write = [&] {
    const std::array<std::uint64_t, 3> ids{3 * rounds, 3 * rounds + 1, 3 * rounds + 2};
    const std::array<std::uint64_t, 3> after{ids[0] + 1, ids[1] + 1, ids[2] + 1};
    const std::array<float, 3> rewards{};
    writers.now(line.id, ids);
    writers.now(line.action, ids);
    writers.now(line.reward, rewards);
    writers.next(line.id, after);
  };
  int error = 0;
  for (; error == 0 && rounds < 133; rounds += error == 0 ? 1 : 0) {
    write();
    error = error_of([&] { ASSERT_EQ(writers.commit(ends), CommitStatus::Committed); },
                     directory.path());
  }
  ASSERT_EQ(error, ENOSPC);
  disk_has_room();
  EXPECT_EQ(writers.commit(ends), CommitStatus::Committed);
  EXPECT_EQ(line.numbers(), numbers_between(0, 3 * (rounds + 1)));
}

TEST_F(FullDisk, OfOneEnvironmentIsFoundAfterAnotherTookItsStepWhichIsNotTakenAgain) {
  const ScratchDirectory directory;
  Options options = options_in(MappedFile{directory.path()});
  options.window = Transitions{};
  options.capacity_steps = 64;
  options.shards = 1;
  Line line(options);
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
  // The first environment is a few steps ahead, so that it takes the last chunk that has room.
  for (std::uint64_t i = 500; i < 504; ++i) {
    writers[0].now(line.id) = i;
    ASSERT_EQ(line.append(writers[0], i), CommitStatus::Committed);
  }
  disk_has_room_for(0);
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
  EXPECT_EQ(commit(priorities), ENOSPC) << "still full";
  EXPECT_EQ(line.replay.stats().committed_steps, before + 1) << "the first would be there twice";
  disk_has_room();
  EXPECT_EQ(commit(priorities), 0);
  EXPECT_EQ(line.replay.stats().committed_steps, before + 3);
}

TEST_F(FullDisk, AtALoadLeavesTheBufferAsItWas) {
  const ScratchDirectory directory;
  const ScratchDirectory checkpoint;
  Line line(options_in(MappedFile{directory.path()}));
  {
    Writer writer = line.replay.writer();
    line.append_many(writer, 0, 300);
  }
  line.replay.save(checkpoint.path());
  disk_has_room_for(line.replay.stats().chunk_bytes);
  EXPECT_EQ(error_of([&] { line.replay.restore(checkpoint.path()); }, directory.path()), ENOSPC);
  EXPECT_EQ(line.numbers(), numbers_between(0, 300));
  EXPECT_EQ(error_of(
                [&] {
                  static_cast<void>(ReplayBuffer::load(checkpoint.path(),
                                                       {.storage = MappedFile{directory.path()}}));
                },
                directory.path()),
            ENOSPC);
}

TEST(MappedFileStorage, IsAskedForByALoadAndKeptByARestore) {
  const ScratchDirectory directory;
  const ScratchDirectory checkpoint;
  Line line(options_in(Memory{}));
  {
    Writer writer = line.replay.writer();
    line.append_many(writer, 0, 1000);
  }
  const auto numbers = line.numbers();
  line.replay.save(checkpoint.path());
  EXPECT_THROW(static_cast<void>(ReplayBuffer::load(checkpoint.path(), {.storage = MappedFile{}})),
               std::invalid_argument);
  ReplayBuffer loaded =
      ReplayBuffer::load(checkpoint.path(), {.storage = MappedFile{directory.path()}});
  EXPECT_GT(loaded.stats().file_bytes, 0U);
  EXPECT_EQ(ReplayBuffer::load(checkpoint.path()).stats().file_bytes, 0U);
  line.replay = std::move(loaded);
  EXPECT_EQ(line.numbers(), numbers);
  // From the file to a checkpoint and back into a file, beside the one that it replaces.
  Writer writer = line.replay.writer();
  writer.begin_episode();
  writer.now(line.id) = 5000;
  EXPECT_EQ(line.append(writer, 5000, End::Terminated), CommitStatus::Committed);
  const auto more = line.numbers();
  line.replay.save(checkpoint.path());
  line.replay.restore(checkpoint.path());
  EXPECT_GT(line.replay.stats().file_bytes, 0U);
  EXPECT_EQ(line.numbers(), more);
  EXPECT_EQ(entries_of(directory.path()), 0U);
}

TEST(MappedFileStorage, IsNotTouchedByAForkedChild) {
  const ScratchDirectory directory;
  auto line = std::make_unique<Line>(options_in(MappedFile{directory.path()}));
  auto writer = std::make_unique<Writer>(line->replay.writer());
  line->append_many(*writer, 0, 300);
  const pid_t maker = ::getpid();
  expect_of_child([&] {
    std::string all;
    const auto refused = [&](const char* what, auto&& call) {
      all += unless_refused<std::logic_error>(what, maker, call);
    };
    refused("commit", [&] { static_cast<void>(writer->commit()); });
    refused("begin_episode", [&] { writer->begin_episode(); });
    refused("add_transition", [&] {
      static_cast<void>(writer->add_transition(End::Continue, now(line->id, 1),
                                               now(line->action, 1), now(line->reward, 1.0F),
                                               next(line->id, 2)));
    });
    refused("sampler", [&] { static_cast<void>(line->replay.sampler()); });
    writer.reset();
    line.reset();
    return all;
  });
  line->append_many(*writer, 300, 100);
  // The last two steps of the episode wait for the third.
  EXPECT_EQ(line->numbers(), numbers_between(0, 398));
}

TEST(MappedFileStorage, ThatWasPutOutToTheDiskComesBack) {
  // Pages of the file leave memory at once, so every draw reads them again and every chunk is
  // written over without being read.
  const std::string path = std::filesystem::temp_directory_path().string();
  Options options = options_in(MappedFile{path});
  options.chunk_steps = 1000;  // Several pages.
  options.capacity_steps = 10'000;
  options.shards = 1;
  Line line(options);
  Writer writer = line.replay.writer();
  Sampler sampler = line.replay.sampler({.seed = 3, .parallel_gather_bytes = kGatherAlone});
  for (std::uint64_t round = 0; round < 20; ++round) {
    line.append_many(writer, round * 2000, 2000);
    std::ifstream maps("/proc/self/maps");
    for (std::string map; std::getline(maps, map);) {
      if (map.find(path) != std::string::npos && map.find("(deleted)") != std::string::npos) {
        char* rest = nullptr;
        const std::uintptr_t begin = std::strtoull(map.c_str(), &rest, 16);
        const std::uintptr_t end = std::strtoull(rest + 1, nullptr, 16);
        // Advice: where it is not taken, the test sees less.
        // NOLINTNEXTLINE(performance-no-int-to-ptr): the system writes them as numbers.
        ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_PAGEOUT);
      }
    }
    for (int i = 0; i < 3; ++i) {
      const SampleResult batch = sampler.sample(256, kAtOnce);
      ASSERT_TRUE(batch);
      for (std::size_t k = 0; k < batch->size(); ++k) {
        const std::uint64_t id = batch->now(line.id)[k];
        ASSERT_LT(id, (round + 1) * 2000);
        ASSERT_EQ(batch->now(line.action)[k], id);
        ASSERT_EQ(batch->next(line.id)[k], id + batch->lengths()[k]);
      }
    }
  }
}

}  // namespace
}  // namespace reprise::test
