#include "record/files.hpp"

#include "record/errors.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <new>
#include <utility>

namespace reprise::record {
namespace {

/// Signals that may interrupt one call before it counts as failed, so that no loop is endless.
constexpr int kMaxInterrupts = 1000;

/// Repeats a call while it is interrupted; returns its last answer.
template <class Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  for (int i = 0; result == -EINTR && i < kMaxInterrupts; ++i) {
    result = call();
  }
  return result;
}

void check(int result, const std::string& file, const char* doing) {
  if (result < 0) {
    throw io_error(file, 0, doing, -result);
  }
}

/// The part of a list of parts that is not written yet.
class Remainder {
 public:
  explicit Remainder(std::span<const Bytes> parts) noexcept : parts_(parts) {}

  /// The next parts, without empty ones; none at the end.
  [[nodiscard]] std::span<const Bytes> next() noexcept {
    std::size_t n = 0;
    for (std::size_t i = part_; i < parts_.size() && n < batch_.size(); ++i) {
      const Bytes rest = i == part_ ? parts_[i].subspan(done_) : parts_[i];
      if (!rest.empty()) {
        batch_[n++] = rest;
      }
    }
    return {batch_.data(), n};
  }

  void advance(std::size_t bytes) noexcept {
    while (bytes > 0 && part_ < parts_.size()) {
      const std::size_t step = std::min(bytes, parts_[part_].size() - done_);
      done_ += step;
      bytes -= step;
      if (done_ == parts_[part_].size()) {
        ++part_;
        done_ = 0;
      }
    }
  }

 private:
  std::span<const Bytes> parts_;
  std::size_t part_ = 0;
  std::size_t done_ = 0;  ///< Bytes of that part that are written.
  std::array<Bytes, 64> batch_{};
};

}  // namespace

StoredFile::StoredFile(std::unique_ptr<File> file, std::string path)
    : file_(std::move(file)), path_(std::move(path)) {}

void StoredFile::write(std::span<const Bytes> parts, std::uint64_t offset) {
  Remainder remainder(parts);
  for (std::span<const Bytes> next = remainder.next(); !next.empty(); next = remainder.next()) {
    const std::int64_t wrote = uninterrupted([&] { return file_->write_at(next, offset); });
    if (wrote <= 0) {
      // A write of 0 bytes would be repeated for ever.
      throw io_error(path_, offset, "cannot write", wrote == 0 ? EIO : static_cast<int>(-wrote));
    }
    remainder.advance(static_cast<std::size_t>(wrote));
    offset += static_cast<std::uint64_t>(wrote);
  }
}

void StoredFile::read(Room room, std::uint64_t offset) {
  while (!room.empty()) {
    const std::int64_t got = uninterrupted([&] { return file_->read_at(room, offset); });
    if (got < 0) {
      throw io_error(path_, offset, "cannot read", static_cast<int>(-got));
    }
    if (got == 0) {
      throw damaged(path_, offset, "the file ends here, and ", room.size(),
                    " bytes more should follow");
    }
    room = room.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::uint64_t StoredFile::size() {
  const std::int64_t result = uninterrupted([&] { return file_->size(); });
  if (result < 0) {
    throw io_error(path_, 0, "cannot ask for the size", static_cast<int>(-result));
  }
  return static_cast<std::uint64_t>(result);
}

void StoredFile::sync() {
  check(uninterrupted([&] { return file_->sync(); }), path_, "cannot sync");
}

Folder::Folder(FileSystem& file_system, std::string path, IfAbsent if_absent)
    : path_(std::move(path)) {
  const int result =
      uninterrupted([&] { return file_system.open_directory(path_, if_absent, directory_); });
  if (result == -ENOENT && if_absent == IfAbsent::Fail) {
    throw CheckpointError(CheckpointError::Kind::Missing, "there is no such directory", path_, 0,
                          ENOENT);
  }
  check(result, path_, "cannot open the directory");
}

StoredFile Folder::create(const std::string& name) {
  std::unique_ptr<File> file;
  check(uninterrupted([&] { return directory_->create(name, file); }), path_of(name),
        "cannot create");
  return {std::move(file), path_of(name)};
}

StoredFile Folder::open(const std::string& name) {
  std::unique_ptr<File> file;
  const int result = uninterrupted([&] { return directory_->open(name, file); });
  if (result == -ENOENT) {
    throw CheckpointError(CheckpointError::Kind::Missing, "there is no such file", path_of(name), 0,
                          ENOENT);
  }
  if (result == -EINVAL) {
    throw damaged(path_of(name), 0, "this is not a regular file");
  }
  check(result, path_of(name), "cannot open");
  return {std::move(file), path_of(name)};
}

bool Folder::exists(const std::string& name) {
  std::unique_ptr<File> file;
  return uninterrupted([&] { return directory_->open(name, file); }) != -ENOENT;
}

void Folder::rename(const std::string& from, const std::string& to) {
  check(uninterrupted([&] { return directory_->rename(from, to); }), path_of(from),
        "cannot rename");
}

bool Folder::try_remove(const std::string& name) noexcept {
  try {
    const int result = uninterrupted([&] { return directory_->remove(name); });
    return result == 0 || result == -ENOENT;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::vector<std::string> Folder::list() {
  std::vector<std::string> names;
  const int result = uninterrupted([&] {
    names.clear();
    return directory_->list(names);
  });
  check(result, path_, "cannot list the directory");
  return names;
}

void Folder::sync() {
  check(uninterrupted([&] { return directory_->sync(); }), path_, "cannot sync the directory");
}

std::unique_ptr<Lock> Folder::lock_exclusive(const std::string& name) {
  std::unique_ptr<Lock> lock;
  const int result =
      uninterrupted([&] { return directory_->lock(name, LockMode::Exclusive, lock); });
  if (result == -EWOULDBLOCK) {
    return nullptr;
  }
  check(result, path_of(name), "cannot lock");
  return lock;
}

std::unique_ptr<Lock> Folder::try_lock_shared(const std::string& name) {
  std::unique_ptr<Lock> lock;
  uninterrupted([&] { return directory_->lock(name, LockMode::Shared, lock); });
  return lock;
}

}  // namespace reprise::record
