#include "memory_file_system.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace reprise::test {

using record::Bytes;
using record::Directory;
using record::File;
using record::Lock;
using record::LockMode;
using record::WritableBytes;

class MemoryFile final : public File {
 public:
  MemoryFile(MemoryFileSystem& system, std::shared_ptr<MemoryFileSystem::Contents> contents)
      : system_(system), contents_(std::move(contents)) {}

  std::int64_t write_at(Bytes written, std::uint64_t offset) override {
    const std::lock_guard lock(system_.mutex_);
    Operation operation{Operation::Kind::Write,          contents_->number, {}, {}, offset,
                        {written.begin(), written.end()}};
    std::vector<std::byte>& bytes = contents_->bytes;
    bytes.resize(std::max<std::size_t>(bytes.size(), offset + operation.bytes.size()));
    std::ranges::copy(operation.bytes, bytes.begin() + static_cast<std::ptrdiff_t>(offset));
    const auto wrote = static_cast<std::int64_t>(operation.bytes.size());
    system_.record_operation(std::move(operation));
    return wrote;
  }

  std::int64_t read_at(WritableBytes room, std::uint64_t offset) override {
    const std::lock_guard lock(system_.mutex_);
    const std::vector<std::byte>& bytes = contents_->bytes;
    if (offset >= bytes.size()) {
      return 0;
    }
    const std::size_t n = std::min<std::size_t>(room.size(), bytes.size() - offset);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), n, room.begin());
    return static_cast<std::int64_t>(n);
  }

  std::int64_t size() override {
    const std::lock_guard lock(system_.mutex_);
    return static_cast<std::int64_t>(contents_->bytes.size());
  }

  int sync() override {
    const std::lock_guard lock(system_.mutex_);
    system_.record_operation({Operation::Kind::SyncFile, contents_->number, {}, {}, 0, {}});
    return 0;
  }

 private:
  MemoryFileSystem& system_;
  std::shared_ptr<MemoryFileSystem::Contents> contents_;
};

/// The number of holders of a lock that is held exclusively.
constexpr int kExclusive = -1;

class MemoryLock final : public Lock {
 public:
  MemoryLock(MemoryFileSystem& system, std::string name)
      : system_(system), name_(std::move(name)) {}
  ~MemoryLock() override {
    const std::lock_guard lock(system_.mutex_);
    int& holders = system_.locks_[name_];
    holders = holders == kExclusive ? 0 : holders - 1;
  }
  MemoryLock(const MemoryLock&) = delete;
  MemoryLock& operator=(const MemoryLock&) = delete;

 private:
  MemoryFileSystem& system_;
  const std::string name_;
};

class MemoryDirectory final : public Directory {
 public:
  explicit MemoryDirectory(MemoryFileSystem& system) : system_(system) {}

  int create(const std::string& name, std::unique_ptr<File>& file) override {
    const std::lock_guard lock(system_.mutex_);
    auto& contents = system_.files_[name];
    if (contents != nullptr) {
      return -EEXIST;
    }
    contents = std::make_shared<MemoryFileSystem::Contents>();
    contents->number = ++system_.last_number_;
    system_.record_operation({Operation::Kind::Create, contents->number, name, {}, 0, {}});
    file = std::make_unique<MemoryFile>(system_, contents);
    return 0;
  }

  int open(const std::string& name, std::unique_ptr<File>& file) override {
    const std::lock_guard lock(system_.mutex_);
    const auto named = system_.files_.find(name);
    if (named == system_.files_.end()) {
      return -ENOENT;
    }
    file = std::make_unique<MemoryFile>(system_, named->second);
    return 0;
  }

  int rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(system_.mutex_);
    const auto named = system_.files_.find(from);
    if (named == system_.files_.end()) {
      return -ENOENT;
    }
    const auto contents = named->second;
    system_.files_.erase(named);
    system_.files_[to] = contents;
    system_.record_operation({Operation::Kind::Rename, contents->number, from, to, 0, {}});
    return 0;
  }

  int remove(const std::string& name) override {
    const std::lock_guard lock(system_.mutex_);
    const auto named = system_.files_.find(name);
    if (named == system_.files_.end()) {
      return -ENOENT;
    }
    system_.record_operation({Operation::Kind::Remove, named->second->number, name, {}, 0, {}});
    system_.files_.erase(named);
    return 0;
  }

  int list(std::vector<std::string>& names) override {
    const std::lock_guard lock(system_.mutex_);
    for (const auto& [name, contents] : system_.files_) {
      names.push_back(name);
    }
    return 0;
  }

  int sync() override {
    const std::lock_guard lock(system_.mutex_);
    system_.record_operation({Operation::Kind::SyncDirectory, 0, {}, {}, 0, {}});
    return 0;
  }

  int lock(const std::string& name, LockMode mode, std::unique_ptr<Lock>& lock) override {
    const std::lock_guard guard(system_.mutex_);
    int& holders = system_.locks_[name];
    const bool exclusive = mode == LockMode::Exclusive;
    if (holders == kExclusive || (exclusive && holders > 0)) {
      return -EWOULDBLOCK;
    }
    holders = exclusive ? kExclusive : holders + 1;
    lock = std::make_unique<MemoryLock>(system_, name);
    return 0;
  }

 private:
  MemoryFileSystem& system_;
};

MemoryFileSystem::MemoryFileSystem(const MemoryFiles& files) {
  for (const auto& [name, bytes] : files) {
    put(name, bytes);
  }
}

int MemoryFileSystem::open_directory(const std::string& /*path*/, record::IfAbsent /*if_absent*/,
                                     std::unique_ptr<Directory>& directory) {
  directory = std::make_unique<MemoryDirectory>(*this);
  return 0;
}

MemoryFiles MemoryFileSystem::files() const {
  const std::lock_guard lock(mutex_);
  MemoryFiles result;
  for (const auto& [name, contents] : files_) {
    result[name] = contents->bytes;
  }
  return result;
}

void MemoryFileSystem::put(const std::string& name, std::vector<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  auto contents = std::make_shared<Contents>();
  contents->number = ++last_number_;
  contents->bytes = std::move(bytes);
  files_[name] = std::move(contents);
}

void MemoryFileSystem::erase(const std::string& name) {
  const std::lock_guard lock(mutex_);
  files_.erase(name);
}

void MemoryFileSystem::mark(std::uint64_t value) {
  const std::lock_guard lock(mutex_);
  record_operation({Operation::Kind::Mark, value, {}, {}, 0, {}});
}

void MemoryFileSystem::record_operation(Operation operation) {
  if (recording_) {
    operations_.push_back(std::move(operation));
  }
}

}  // namespace reprise::test
