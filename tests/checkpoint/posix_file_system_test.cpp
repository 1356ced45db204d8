#include "record/posix_file_system.hpp"

#include "checkpoint/names.hpp"
#include "contents.hpp"
#include "testing/faults/child.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace reprise::checkpoint {
namespace {

using test::ContentsGenerator;
using test::load;
using test::save;
using Kind = CheckpointError::Kind;

/// Empty if the call fails with this kind and errno; otherwise what it did.
std::string describe_unless_fails(Kind kind, int error_number, const std::function<void()>& call) {
  try {
    call();
  } catch (const CheckpointError& error) {
    return error.kind() == kind && error.error_number() == error_number
               ? std::string()
               : std::string("another error: ") + error.what();
  }
  return "it did not fail";
}

class PosixFiles : public testing::Test {
 protected:
  [[nodiscard]] std::string directory() const { return scratch_.path() + "/checkpoints"; }
  [[nodiscard]] std::string in(const std::string& name) const { return directory() + "/" + name; }

  test::ScratchDirectory scratch_;
  record::PosixFileSystem system_;
};

TEST_F(PosixFiles, KeepCheckpoints) {
  ContentsGenerator maker(1, 10, 2000, 200);
  const ManifestId first = save(system_, directory(), maker.next()).id;
  save(system_, directory(), maker.next(), {.compression = {.level = 1}}, first);
  EXPECT_TRUE(load(system_, directory()).contents == maker.now());
  const auto links = std::filesystem::directory_iterator(directory());
  for (const auto& entry : links) {
    EXPECT_TRUE(entry.is_regular_file());
  }
}

TEST_F(PosixFiles, AreInADirectoryThatASaveCreatesWithItsParents) {
  ContentsGenerator maker(1, 10, 2000, 200);
  const std::string nested = in("a/b/");
  EXPECT_THROW(load(system_, nested), CheckpointError);
  save(system_, nested, maker.next());
  EXPECT_TRUE(load(system_, nested).contents == maker.now());
}

TEST_F(PosixFiles, LeaveNoDescriptorOpen) {
  const auto descriptors = [] {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      ++n;
    }
    return n;
  };
  ContentsGenerator maker(1, 10);
  save(system_, directory(), maker.next());
  const std::size_t before = descriptors();
  save(system_, directory(), maker.next());
  load(system_, directory());
  EXPECT_EQ(descriptors(), before);
}

/// A program that the process starts must not inherit files, or it would hold the lock.
TEST_F(PosixFiles, AreNotInheritedByOtherPrograms) {
  Saver saver(system_, directory(), {});
  saver.write_state("state", {});
  std::size_t in_directory = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string path = std::filesystem::read_symlink(entry.path(), gone).string();
    if (path.starts_with(std::filesystem::canonical(directory()).string())) {
      ++in_directory;
      const int flags = ::fcntl(std::stoi(entry.path().filename().string()), F_GETFD);
      EXPECT_NE(flags & FD_CLOEXEC, 0) << path;
    }
  }
  EXPECT_EQ(in_directory, 3U) << "open are the directory, its lock and a data file";
}

/// A process may have lost the permission to open the directory a second time, so `list` must use
/// the open directory, and not its path.
TEST_F(PosixFiles, AreListedInTheOpenDirectoryAlsoIfItWasRenamed) {
  std::unique_ptr<record::Directory> opened;
  ASSERT_EQ(system_.open_directory(directory(), record::IfAbsent::Create, opened), 0);
  std::unique_ptr<record::File> file;
  ASSERT_EQ(opened->create("file", file), 0);
  std::filesystem::rename(directory(), scratch_.path() + "/elsewhere");
  std::vector<std::string> names;
  EXPECT_EQ(opened->list(names), 0);
  EXPECT_EQ(names, std::vector<std::string>{"file"});
}

TEST_F(PosixFiles, AreCreatedOnceAndNotOpenedThroughSymbolicLinks) {
  std::unique_ptr<record::Directory> opened;
  ASSERT_EQ(system_.open_directory(directory(), record::IfAbsent::Create, opened), 0);
  std::unique_ptr<record::File> file;
  EXPECT_EQ(opened->create("file", file), 0);
  EXPECT_EQ(opened->create("file", file), -EEXIST);
  ASSERT_EQ(::symlink("file", in("link").c_str()), 0);
  EXPECT_EQ(opened->open("link", file), -EINVAL);
  EXPECT_EQ(opened->open("file", file), 0);
}

TEST_F(PosixFiles, ThatAreNoRegularFilesAreDamage) {
  ContentsGenerator maker(1, 3);
  save(system_, directory(), maker.next());
  const std::string whole = in(manifest_name(1));
  const std::string newest = in(manifest_name(2));
  const auto expect_skipped = [&](const char* what) {
    const test::Loaded loaded = load(system_, directory());
    EXPECT_EQ(loaded.id.number, 1U) << what;
    ASSERT_EQ(loaded.skipped.size(), 1U) << what;
    EXPECT_EQ(loaded.skipped[0].error.kind(), Kind::Damaged) << what;
    std::filesystem::remove(newest);
  };
  // Opening a pipe for reading must not wait for a writer.
  ASSERT_EQ(::mkfifo(newest.c_str(), 0666), 0);
  expect_skipped("a pipe");
  ASSERT_EQ(::symlink(whole.c_str(), newest.c_str()), 0);
  expect_skipped("a link");
  ASSERT_EQ(::mkdir(newest.c_str(), 0777), 0);
  expect_skipped("a directory");
}

TEST_F(PosixFiles, AreLockedAgainstOtherSaversInThisAndInOtherProcesses) {
  save(system_, directory(), {});
  {
    const Saver saver(system_, directory(), {});
    EXPECT_EQ(describe_unless_fails(Kind::Locked, 0, [&] { Saver(system_, directory(), {}); }), "");
    test::expect_in_child([&] {
      return describe_unless_fails(Kind::Locked, 0, [&] { Saver(system_, directory(), {}); });
    });
  }
  save(system_, directory(), {});
}

TEST_F(PosixFiles, AreUnlockedAfterASaveAlsoIfAForkedChildLivesOn) {
  // The child inherits the descriptor of the lock and outlives the save.
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  pid_t child = -1;
  {
    const Saver saver(system_, directory(), {});
    child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(pipe[1]);
      char unused = 0;  // The read returns once the parent closes the pipe.
      static_cast<void>(::read(pipe[0], &unused, 1));
      ::_exit(0);
    }
  }
  EXPECT_NO_THROW(save(system_, directory(), {}));
  ::close(pipe[0]);
  ::close(pipe[1]);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(PosixFiles, AChildThatDestroysASaverDoesNotUnlockItsParentsFiles) {
  auto saver = std::make_unique<Saver>(system_, directory(), SaveOptions{});
  test::expect_in_child([&] {
    saver.reset();
    return std::string();
  });
  EXPECT_EQ(describe_unless_fails(Kind::Locked, 0, [&] { Saver(system_, directory(), {}); }), "");
}

/// Runs `work` in a child process for which a file system of 256 KiB is mounted at `path`. Where
/// the system does not allow that, the test passes without `work`.
void run_on_small_disk(const std::string& path, const std::function<std::string()>& work) {
  test::expect_in_child([&]() -> std::string {
    if (::unshare(CLONE_NEWNS | (::geteuid() == 0 ? 0 : CLONE_NEWUSER)) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", path.c_str(), "tmpfs", 0, "size=256k") != 0) {
      std::printf("cannot mount a file system here: errno %d\n", errno);
      return {};
    }
    return work();
  });
}

TEST_F(PosixFiles, OnAFullDiskKeepTheCheckpointBefore) {
  run_on_small_disk(scratch_.path(), [&]() -> std::string {
    ContentsGenerator maker(1, 10);
    const ManifestId first = save(system_, directory(), maker.next()).id;
    test::Contents large = maker.now();
    test::Rng rng(1);
    large.chunks[3] = {{3, 99, 1, true}, test::random_bytes(rng, 300'000)};
    for (int i = 0; i < 3; ++i) {
      const std::string complaint = describe_unless_fails(
          Kind::Io, ENOSPC, [&] { save(system_, directory(), large, {}, first); });
      if (!complaint.empty()) {
        return complaint;
      }
      if (!(load(system_, directory()).contents == maker.now())) {
        return "the checkpoint before has changed";
      }
    }
    save(system_, directory(), maker.next(), {}, first);
    return load(system_, directory()).contents == maker.now() ? "" : "the next save is not whole";
  });
}

TEST_F(PosixFiles, OfAReadOnlyFileSystemCanBeLoadedButNotSaved) {
  run_on_small_disk(scratch_.path(), [&]() -> std::string {
    ContentsGenerator maker(1, 10);
    save(system_, directory(), maker.next());
    if (::mount("none", scratch_.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
      return "cannot make the file system read-only";
    }
    std::string complaint =
        describe_unless_fails(Kind::Io, EROFS, [&] { save(system_, directory(), maker.now()); });
    if (!(load(system_, directory()).contents == maker.now())) {
      complaint += "not loaded";
    }
    return complaint;
  });
}

}  // namespace
}  // namespace reprise::checkpoint
