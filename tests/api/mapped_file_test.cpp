#include "api/mapped_buffers.hpp"
#include "testing/faults/child.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"
#include "testing/worlds/conformance.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

// Tests that rows in a mapped file behave like rows in memory, and of what only files can do.

namespace reprise::test {
namespace {

std::size_t entries_of(const std::string& directory) {
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) {
    ++entries;
  }
  return entries;
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
    Conformance({selectors[seed % selectors.size()],
                 removers[seed % removers.size()].remover,
                 GetParam().strategy,
                 limiters[seed % limiters.size()].strategy,
                 MappedFile{directory.path()},
                 {.compressed = seed % 2 == 0}},
                seed)
        .run(150);
  }
}

TEST(MappedFileStorage, LeavesNoFileInTheDirectoryOfAnyNumberOfBuffers) {
  const ScratchDirectory directory;
  {
    NumberedBuffer first(options_in(MappedFile{directory.path()}));
    NumberedBuffer second(options_in(MappedFile{directory.path()}));
    NumberedBuffer third(options_in(MappedFile{directory.path() + "/rows"}));
    for (NumberedBuffer* const line : {&first, &second, &third}) {
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
  NumberedBuffer memory(options_in(Memory{}));
  NumberedBuffer file(options_in(MappedFile{directory.path()}));
  const Stats before = file.replay.stats();
  // Disk space for the whole capacity is reserved when the buffer is made.
  EXPECT_GE(before.file_bytes, 400 / 24 * before.chunk_bytes);
  for (NumberedBuffer* const line : {&memory, &file}) {
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

TEST(MappedFileStorage, LeavesNoFileWhenTheProcessIsKilled) {
  const ScratchDirectory directory;
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const NumberedBuffer line(options_in(MappedFile{directory.path()}));
    (void)::write(ready[1], "x", 1);
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

TEST(MappedFileStorage, ThatCannotBeMadeIsRefusedWithErrnoAndPath) {
  const ScratchDirectory directory;
  const auto make = [](const std::filesystem::path& path) {
    return [path] { const NumberedBuffer line(options_in(MappedFile{path})); };
  };
  EXPECT_THROW(make("")(), std::invalid_argument);
  const std::string missing = directory.path() + "/missing/rows";
  EXPECT_EQ(error_of(make(missing), missing), ENOENT);
  const std::string taken = directory.path() + "/taken";
  std::ofstream(taken) << "somebody's";
  EXPECT_EQ(error_of(make(taken), taken), EEXIST);
  EXPECT_EQ(std::filesystem::file_size(taken), 10U) << "the file of somebody else has changed";
  EXPECT_EQ(error_of(make(taken + "/rows"), taken), ENOTDIR);
  if (::geteuid() != 0) {
    std::filesystem::permissions(
        directory.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    EXPECT_EQ(error_of(make(directory.path()), directory.path()), EACCES);
    std::filesystem::permissions(directory.path(), std::filesystem::perms::owner_all);
  }
}

TEST(MappedFileStorage, AboveTheLimitOfFileSizesIsRefusedWithErrno) {
  const ScratchDirectory directory;
  expect_in_child([&]() -> std::string {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const int error =
        error_of([&] { const NumberedBuffer line(options_in(MappedFile{directory.path()})); },
                 directory.path());
    return error == EFBIG ? "" : "errno " + std::to_string(error);
  });
}

TEST(MappedFileStorage, IsChosenByALoadAndKeptByARestore) {
  const ScratchDirectory directory;
  const ScratchDirectory checkpoint;
  NumberedBuffer line(options_in(Memory{}));
  {
    Writer writer = line.replay.writer();
    line.append_many(writer, 0, 1000);
  }
  const auto numbers = line.numbers();
  line.replay.save(checkpoint.path());
  EXPECT_THROW((void)ReplayBuffer::load(checkpoint.path(), {.storage = MappedFile{}}),
               std::invalid_argument);
  ReplayBuffer loaded =
      ReplayBuffer::load(checkpoint.path(), {.storage = MappedFile{directory.path()}}).buffer;
  EXPECT_GT(loaded.stats().file_bytes, 0U);
  EXPECT_EQ(ReplayBuffer::load(checkpoint.path()).buffer.stats().file_bytes, 0U);
  line.replay = std::move(loaded);
  EXPECT_EQ(line.numbers(), numbers);
  // Steps that were loaded into a file can be saved, and restored into another file.
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
  auto line = std::make_unique<NumberedBuffer>(options_in(MappedFile{directory.path()}));
  auto writer = std::make_unique<Writer>(line->replay.writer());
  line->append_many(*writer, 0, 300);
  const pid_t maker = ::getpid();
  expect_in_child([&] {
    std::string all;
    const auto refused = [&](const char* what, auto&& call) {
      all += describe_unless_refused<std::logic_error>(what, maker, call);
    };
    refused("commit", [&] { (void)writer->commit(); });
    refused("begin_episode", [&] { writer->begin_episode(); });
    refused("add_transition", [&] {
      (void)writer->add_transition(End::Continue, now(line->id, 1), now(line->action, 1),
                                   now(line->reward, 1.0F), next(line->id, 2));
    });
    refused("sampler", [&] { (void)line->replay.sampler(); });
    writer.reset();
    line.reset();
    return all;
  });
  line->append_many(*writer, 300, 100);
  // The windows of the last two steps are not complete yet.
  EXPECT_EQ(line->numbers(), number_range(0, 398));
}

TEST(MappedFileStorage, IsReadBackAfterItsPagesWereWrittenOutToTheDisk) {
  // MADV_PAGEOUT writes the pages of the file to the disk at once, so draws have to read them
  // again, and appends overwrite pages that are not in memory.
  const std::string path = std::filesystem::temp_directory_path().string();
  Options options = options_in(MappedFile{path});
  options.chunk_steps = 1000;  // A chunk has several pages.
  options.capacity_steps = 10'000;
  options.shards = 1;
  NumberedBuffer line(options);
  Sampler sampler = line.replay.sampler({.seed = 3, .parallel_gather_bytes = kNoParallelGather});
  for (std::uint64_t round = 0; round < 20; ++round) {
    line.append_many(round * 2000, 2000);
    std::ifstream maps("/proc/self/maps");
    for (std::string map; std::getline(maps, map);) {
      if (map.find(path) != std::string::npos && map.find("(deleted)") != std::string::npos) {
        char* rest = nullptr;
        const std::uintptr_t begin = std::strtoull(map.c_str(), &rest, 16);
        const std::uintptr_t end = std::strtoull(rest + 1, nullptr, 16);
        // The system may ignore the advice; the test is weaker then.
        // NOLINTNEXTLINE(performance-no-int-to-ptr): the system writes addresses as numbers.
        ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_PAGEOUT);
      }
    }
    for (int i = 0; i < 3; ++i) {
      const SampleResult batch = require_batch(sampler.sample(256, kNoWait));
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
