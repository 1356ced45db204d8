#include "record/posix_file_system.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

namespace reprise::record {
namespace {

/// The result of a system call, or minus the error number if it failed.
template <class Result>
Result answer(Result result) {
  return result < 0 ? -errno : result;
}

class Descriptor {
 public:
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) {
      // An error of close is ignored, because a sync has reported it before.
      ::close(number_);
    }
  }
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_;
};

class PosixFile final : public File {
 public:
  explicit PosixFile(Descriptor descriptor) noexcept : descriptor_(std::move(descriptor)) {}

  std::int64_t write_at(Bytes bytes, std::uint64_t offset) override {
    return answer(
        ::pwrite(descriptor_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset)));
  }

  std::int64_t read_at(WritableBytes room, std::uint64_t offset) override {
    if (offset > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) {
      return 0;
    }
    return answer(
        ::pread(descriptor_.number(), room.data(), room.size(), static_cast<off_t>(offset)));
  }

  std::int64_t size() override {
    struct stat status {};
    return ::fstat(descriptor_.number(), &status) < 0 ? -errno : status.st_size;
  }

  int sync() override { return answer(::fsync(descriptor_.number())); }

 private:
  const Descriptor descriptor_;
};

/// Uses flock, whose locks belong to the open file, so that two savers of one process exclude each
/// other too. Forked children share the open file. So the parent unlocks explicitly, as closing
/// would not suffice, and children do not unlock.
class PosixLock final : public Lock {
 public:
  explicit PosixLock(Descriptor descriptor) noexcept : descriptor_(std::move(descriptor)) {}
  PosixLock(const PosixLock&) = delete;
  PosixLock& operator=(const PosixLock&) = delete;
  ~PosixLock() override {
    if (::getpid() == process_) {
      ::flock(descriptor_.number(), LOCK_UN);
    }
  }

 private:
  const Descriptor descriptor_;
  const pid_t process_ = ::getpid();
};

class PosixDirectory final : public Directory {
 public:
  explicit PosixDirectory(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}

  int create(const std::string& name, std::unique_ptr<File>& file) override {
    Descriptor opened(open_at(name, O_RDWR | O_CREAT | O_EXCL));
    if (opened.number() < 0) {
      return -errno;
    }
    file = std::make_unique<PosixFile>(std::move(opened));
    return 0;
  }

  int open(const std::string& name, std::unique_ptr<File>& file) override {
    // O_NONBLOCK, because opening a pipe would wait for its other end.
    Descriptor opened(open_at(name, O_RDONLY | O_NONBLOCK));
    if (opened.number() < 0) {
      return errno == ELOOP ? -EINVAL : -errno;
    }
    struct stat status {};
    if (::fstat(opened.number(), &status) < 0) {
      return -errno;
    }
    if (!S_ISREG(status.st_mode)) {
      return -EINVAL;
    }
    file = std::make_unique<PosixFile>(std::move(opened));
    return 0;
  }

  int rename(const std::string& from, const std::string& to) override {
    return answer(::renameat(descriptor_.number(), from.c_str(), descriptor_.number(), to.c_str()));
  }

  int remove(const std::string& name) override {
    return answer(::unlinkat(descriptor_.number(), name.c_str(), 0));
  }

  int list(std::vector<std::string>& names) override {
    // Opens the directory anew, because closedir closes the descriptor, and because its reading
    // position must not be shared with other threads.
    const int opened = open_at(".", O_RDONLY | O_DIRECTORY);
    if (opened < 0) {
      return -errno;
    }
    DIR* const stream = ::fdopendir(opened);
    if (stream == nullptr) {
      const int error = errno;
      ::close(opened);
      return -error;
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> closed_at_the_end(stream, ::closedir);
    for (;;) {
      errno = 0;
      // POSIX.1-2017: safe as long as no other thread uses the same stream.
      const dirent* const entry = ::readdir(stream);  // NOLINT(concurrency-mt-unsafe)
      if (entry == nullptr) {
        return -errno;
      }
      const std::string name(static_cast<const char*>(entry->d_name));
      if (name != "." && name != "..") {
        names.push_back(name);
      }
    }
  }

  int sync() override { return answer(::fsync(descriptor_.number())); }

  int lock(const std::string& name, LockMode mode, std::unique_ptr<Lock>& lock) override {
    const bool exclusive = mode == LockMode::Exclusive;
    Descriptor opened(open_at(name, exclusive ? O_RDWR | O_CREAT : O_RDONLY | O_NONBLOCK));
    if (opened.number() < 0) {
      return -errno;
    }
    if (::flock(opened.number(), (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) < 0) {
      return -errno;
    }
    lock = std::make_unique<PosixLock>(std::move(opened));
    return 0;
  }

 private:
  [[nodiscard]] int open_at(const std::string& name, int flags) const {
    constexpr mode_t kMode = 0666;
    return ::openat(descriptor_.number(), name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, kMode);
  }

  const Descriptor descriptor_;
};

/// Makes a directory, and those above it that are missing, and ensures that their names are on the
/// disk: also the name of one that an earlier process made before it died.
int make_directory(const std::filesystem::path& path) {
  constexpr mode_t kMode = 0777;
  bool created = ::mkdir(path.c_str(), kMode) == 0;
  if (!created && errno == ENOENT && path.has_parent_path() && path.parent_path() != path) {
    if (const int result = make_directory(path.parent_path()); result < 0) {
      return result;
    }
    created = ::mkdir(path.c_str(), kMode) == 0;
  }
  if (!created && errno != EEXIST) {
    return -errno;
  }
  const Descriptor parent(::open((path / "..").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.number() < 0) {
    // A directory that existed may lie in one that this process may not read.
    return errno == EACCES && !created ? 0 : -errno;
  }
  return answer(::fsync(parent.number()));
}

}  // namespace

int PosixFileSystem::open_directory(const std::string& path, IfAbsent if_absent,
                                    std::unique_ptr<Directory>& directory) {
  if (if_absent == IfAbsent::Create) {
    if (const int result = make_directory(path); result < 0) {
      return result;
    }
  }
  Descriptor opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.number() < 0) {
    return -errno;
  }
  directory = std::make_unique<PosixDirectory>(std::move(opened));
  return 0;
}

}  // namespace reprise::record
