#include "../record/faulty_file_system.hpp"
#include "checkpoint/saver.hpp"
#include "checkpoint/snapshot.hpp"
#include "contents.hpp"
#include "record/posix_file_system.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace reprise::checkpoint {
namespace {

using test::ByteVector;
using test::Contents;
using test::load;

/// Random bytes that differ for each chunk, generation and salt.
ByteVector bytes_of(const ChunkId& id, std::uint64_t salt) {
  test::Rng rng((std::uint64_t{id.generation} << 32U) + id.index * 1000U + id.rows + salt);
  return test::random_bytes(rng, id.rows * 40U);
}

/// The contents of checkpoint `number`, the same in every process. Three of four chunks are closed,
/// and stay the same for three to six saves.
Contents contents_of(std::uint64_t number) {
  Contents contents;
  for (std::uint32_t i = 0; i < 12; ++i) {
    // The 7 makes chunks change at different saves.
    const auto generation = static_cast<std::uint32_t>((number + 7ULL * i) / (3 + i % 4));
    ChunkId id{i, generation, 6, i % 4 != 0};
    if (!id.closed) {
      id.rows = static_cast<std::uint32_t>(number % 6);
    }
    contents.chunks[i] = {id, bytes_of(id, id.closed ? 0 : number << 40U)};
  }
  contents.states["number"] = ByteVector(8, static_cast<std::byte>(number));
  return contents;
}

/// Saves one checkpoint after the other, and writes the number of each completed save to the pipe.
[[noreturn]] void save_for_ever(record::FileSystem& system, const std::string& directory,
                                int pipe) {
  std::optional<ManifestId> base;
  try {
    base = open_latest(system, directory).id();
  } catch (const CheckpointError&) {
    base.reset();
  }
  for (;;) {
    Saver saver(system, directory, {}, base);
    const Contents contents = contents_of(saver.number());
    for (const auto& [index, chunk] : contents.chunks) {
      if (!saver.reuse_chunk(chunk.id)) {
        saver.write_chunk(chunk.id, std::array{record::Bytes(chunk.bytes)});
      }
    }
    for (const auto& [name, bytes] : contents.states) {
      saver.write_state(name, std::array{record::Bytes(bytes)});
    }
    const std::uint64_t number = saver.commit().manifest;
    base = saver.id();
    if (::write(pipe, &number, sizeof(number)) != static_cast<ssize_t>(sizeof(number))) {
      ::_exit(1);
    }
  }
}

/// Runs `child` in a process, which `kill` or a signal of its own must kill. Returns the last
/// number that the child wrote to its pipe, or `last` if it wrote no number.
template <class Child, class Kill>
std::uint64_t run_until_killed(std::uint64_t last, const Child& child, const Kill& kill) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  std::fflush(nullptr);
  const pid_t process = ::fork();
  EXPECT_GE(process, 0);
  if (process == 0) {
    constexpr unsigned kMaxSeconds = 180;  // Ends a child that hangs, so that the test fails.
    ::alarm(kMaxSeconds);
    ::close(ends[0]);
    try {
      child(ends[1]);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    ::_exit(1);
  }
  ::close(ends[1]);
  kill(process);
  int status = 0;
  EXPECT_EQ(::waitpid(process, &status, 0), process);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "status " << status;
  std::uint64_t number = 0;
  while (::read(ends[0], &number, sizeof(number)) == static_cast<ssize_t>(sizeof(number))) {
    last = number;
  }
  ::close(ends[0]);
  return last;
}

/// Expects that the last checkpoint that a child has reported, or a later one, can be loaded with
/// all of its contents. `newest` is the number of the newest checkpoint loaded so far.
void check(record::FileSystem& system, const std::string& directory, std::uint64_t reported,
           std::uint64_t& newest) {
  try {
    const test::Loaded loaded = load(system, directory);
    EXPECT_TRUE(loaded.skipped.empty());
    EXPECT_GE(loaded.id.number, reported);
    EXPECT_GE(loaded.id.number, newest) << "older than the checkpoint that was loaded before";
    EXPECT_TRUE(loaded.contents == contents_of(loaded.id.number)) << loaded.id.number;
    newest = loaded.id.number;
  } catch (const CheckpointError& error) {
    EXPECT_EQ(reported, 0U) << error.what();
    EXPECT_EQ(error.kind(), CheckpointError::Kind::Missing) << error.what();
  }
}

TEST(Kill, AtRandomMomentsOfSavesLosesNoReportedCheckpoint) {
  const std::uint64_t seed = 51;
  test::Rng rng(seed);
  const test::ScratchDirectory scratch;
  const std::string directory = scratch.path() + "/checkpoints";
  record::PosixFileSystem system;
  std::uint64_t reported = 0;
  std::uint64_t newest = 0;
  const std::size_t kills = test::scaled(200, 20);
  std::size_t done = 0;
  // On a busy machine most saves are killed before they end, so there are more kills, after longer
  // delays.
  for (; (done < kills || reported <= kills / 10) && !testing::Test::HasFailure(); ++done) {
    const auto delay = static_cast<useconds_t>(rng.below(6'000 * (1 + done / kills)));
    reported = run_until_killed(
        reported, [&](int pipe) { save_for_ever(system, directory, pipe); },
        [&](pid_t process) {
          ::usleep(delay);
          ::kill(process, SIGKILL);
        });
    check(system, directory, reported, newest);
  }
  RecordProperty("kills", static_cast<int>(done));
}

TEST(Kill, BeforeEachCallOfASaveLosesNoReportedCheckpoint) {
  const test::ScratchDirectory scratch;
  const std::string directory = scratch.path() + "/checkpoints";
  record::PosixFileSystem posix;
  std::uint64_t reported = 0;
  std::uint64_t newest = 0;
  // Two saves make fewer than 250 calls to the file system, so each call of a first and of a
  // second, incremental save is the last of some child.
  for (std::size_t nth = 0; nth < 250 && !testing::Test::HasFailure(); ++nth) {
    reported = run_until_killed(
        reported,
        [&](int pipe) {
          std::size_t calls = 0;
          test::FaultyFileSystem system(posix, [&] {
            if (calls++ == nth) {
              ::kill(::getpid(), SIGKILL);
            }
          });
          save_for_ever(system, directory, pipe);
        },
        [](pid_t) {});
    check(posix, directory, reported, newest);
  }
  EXPECT_GT(reported, 10U);
}

}  // namespace
}  // namespace reprise::checkpoint
