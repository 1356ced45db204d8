#include "testing/faults/child.hpp"
#include "testing/fixtures/checkpoint_error.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

/// Directories in which the operating system refuses a save or a load.
namespace reprise::test {
namespace {

using Kind = CheckpointError::Kind;

void expect_refused(const std::function<void()>& call, Kind kind, int error_number,
                    const std::string& file) {
  const CheckpointError error = checkpoint_error_of(call);
  EXPECT_FALSE(std::string(error.what()).empty());
  EXPECT_EQ(error.kind(), kind);
  EXPECT_EQ(error.error_number(), error_number);
  EXPECT_NE(error.file().find(file), std::string::npos) << error.file();
}

/// A buffer with 10 steps.
class TenSteps {
 public:
  TenSteps() : writer_(line_.replay.writer()) { line_.append_many(writer_, 0, 10); }
  ReplayBuffer& replay() { return line_.replay; }

 private:
  NumberedBuffer line_;
  Writer writer_;
};

void expect_both_refused(const std::string& path, Kind save, Kind load, int error_number) {
  SCOPED_TRACE(path.substr(0, 60));
  TenSteps ten;
  expect_refused([&] { ten.replay().save(path); }, save, error_number, path);
  expect_refused([&] { (void)ReplayBuffer::load(path); }, load, error_number, path);
  expect_refused([&] { ten.replay().restore(path); }, load, error_number, path);
  EXPECT_EQ(ten.replay().size(), 10U);
}

TEST(CheckpointDirectory, ThatCannotExistIsRefused) {
  const ScratchDirectory scratch;
  const std::string file = scratch.path() + "/file";
  std::ofstream(file) << "no directory";
  expect_both_refused("", Kind::Io, Kind::Missing, ENOENT);
  const std::string none = scratch.path() + "/none/below";
  expect_refused([&] { (void)ReplayBuffer::load(none); }, Kind::Missing, ENOENT, none);
  expect_both_refused(file, Kind::Io, Kind::Io, ENOTDIR);
  expect_both_refused(file + "/below", Kind::Io, Kind::Io, ENOTDIR);
  expect_both_refused(scratch.path() + "/" + std::string(300, 'x'), Kind::Io, Kind::Io,
                      ENAMETOOLONG);
  expect_refused([&] { (void)ReplayBuffer::load(scratch.path()); }, Kind::Missing, 0,
                 scratch.path());
}

/// While an object of this class exists, the process has no rights of root, which override all
/// permissions.
class WithoutRootRights {
 public:
  WithoutRootRights() {
    constexpr uid_t kNobody = 65534;
    EXPECT_TRUE(old_uid_ != 0 || ::seteuid(kNobody) == 0);
  }
  ~WithoutRootRights() { EXPECT_EQ(::seteuid(old_uid_), 0); }
  WithoutRootRights(const WithoutRootRights&) = delete;
  WithoutRootRights& operator=(const WithoutRootRights&) = delete;

 private:
  const uid_t old_uid_ = ::geteuid();
};

/// The data file of the newest checkpoint.
std::string data_file(const std::string& directory) {
  std::string newest;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().filename().string().starts_with("data-")) {
      newest = std::max(newest, entry.path().string());
    }
  }
  return newest;
}

TEST(CheckpointDirectory, WithoutPermissionIsRefused) {
  // A child process gives up its rights. It makes a buffer of its own.
  expect_in_child([]() -> std::string {
    const ScratchDirectory scratch;
    EXPECT_EQ(::chmod(scratch.path().c_str(), 0777), 0);
    const WithoutRootRights nobody;
    const std::string path = scratch.path() + "/checkpoints";
    TenSteps ten;
    ten.replay().save(path);
    const auto mode = [](const std::string& of, mode_t bits) {
      EXPECT_EQ(::chmod(of.c_str(), bits), 0) << of;
    };
    mode(path, 0);
    expect_refused([&] { ten.replay().save(path); }, Kind::Io, EACCES, path);
    expect_refused([&] { (void)ReplayBuffer::load(path); }, Kind::Io, EACCES, path);
    // The directory can be read, but not written.
    mode(path, 0555);
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      mode(entry.path(), 0444);
    }
    expect_refused([&] { ten.replay().save(path); }, Kind::Io, EACCES, path + "/");
    EXPECT_EQ(ReplayBuffer::load(path).buffer.size(), 10U);
    // The newest checkpoint cannot be read, but is not damaged, so the load does not use an older
    // one.
    mode(path, 0777);
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      mode(entry.path(), 0666);
    }
    ten.replay().save(path);
    const std::string data = data_file(path);
    mode(data, 0);
    expect_refused([&] { (void)ReplayBuffer::load(path); }, Kind::Io, EACCES, data);
    mode(data, 0666);
    EXPECT_EQ(ReplayBuffer::load(path).buffer.size(), 10U);
    return testing::Test::HasFailure() ? "see above" : "";
  });
}

}  // namespace
}  // namespace reprise::test
