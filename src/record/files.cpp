#include "record/files.hpp"

#include "record/errors.hpp"

#include <cerrno>
#include <cstddef>
#include <new>
#include <utility>

namespace reprise::record {
namespace {

/// How often a call may be interrupted before it counts as failed, so that no loop is endless.
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

/// Makes a call as `uninterrupted` does, and throws if it fails. `if_absent`: the kind of the error
/// for a name that does not exist.
template <class Call>
auto checked(const Call& call, const std::string& file, const char* doing, std::uint64_t offset = 0,
             CheckpointError::Kind if_absent = CheckpointError::Kind::Io) {
  const auto result = uninterrupted(call);
  if (result < 0) {
    throw io_error(file, offset, doing, static_cast<int>(-result), if_absent);
  }
  return result;
}

}  // namespace

void StoredFile::write(Bytes bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const std::int64_t wrote =
        checked([&] { return file_->write_at(bytes, offset); }, path_, "cannot write", offset);
    if (wrote == 0) {
      // Without this error the write would be repeated for ever.
      throw io_error(path_, offset, "cannot write", EIO);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
    offset += static_cast<std::uint64_t>(wrote);
  }
}

void StoredFile::read(WritableBytes room, std::uint64_t offset) {
  while (!room.empty()) {
    const std::int64_t got =
        checked([&] { return file_->read_at(room, offset); }, path_, "cannot read", offset);
    if (got == 0) {
      throw damaged(path_, offset, "the file ends here, and ", room.size(),
                    " bytes more should follow");
    }
    room = room.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::uint64_t StoredFile::size() {
  return static_cast<std::uint64_t>(
      checked([&] { return file_->size(); }, path_, "cannot ask for the size"));
}

void StoredFile::sync() {
  checked([&] { return file_->sync(); }, path_, "cannot sync");
}

Folder::Folder(FileSystem& file_system, std::string path, IfAbsent if_absent)
    : path_(std::move(path)) {
  checked([&] { return file_system.open_directory(path_, if_absent, directory_); }, path_,
          "cannot open the directory", 0,
          if_absent == IfAbsent::Fail ? CheckpointError::Kind::Missing : CheckpointError::Kind::Io);
}

StoredFile Folder::create(const std::string& name) {
  std::unique_ptr<File> file;
  checked([&] { return directory_->create(name, file); }, path_of(name), "cannot create");
  return {std::move(file), path_of(name)};
}

StoredFile Folder::open(const std::string& name) {
  std::unique_ptr<File> file;
  const auto open = [&] {
    const int result = directory_->open(name, file);
    if (result == -EINVAL) {
      throw damaged(path_of(name), 0, "this is not a regular file");
    }
    return result;
  };
  checked(open, path_of(name), "cannot open", 0, CheckpointError::Kind::Missing);
  return {std::move(file), path_of(name)};
}

bool Folder::exists(const std::string& name) {
  std::unique_ptr<File> file;
  return uninterrupted([&] { return directory_->open(name, file); }) != -ENOENT;
}

void Folder::rename(const std::string& from, const std::string& to) {
  checked([&] { return directory_->rename(from, to); }, path_of(from), "cannot rename");
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
  const auto list = [&] {
    names.clear();
    return directory_->list(names);
  };
  checked(list, path_, "cannot list the directory");
  return names;
}

void Folder::sync() {
  checked([&] { return directory_->sync(); }, path_, "cannot sync the directory");
}

std::unique_ptr<Lock> Folder::lock(const std::string& name, LockMode mode) {
  std::unique_ptr<Lock> lock;
  const int result = uninterrupted([&] { return directory_->lock(name, mode, lock); });
  if (result < 0 && result != -EWOULDBLOCK && mode == LockMode::Exclusive) {
    throw io_error(path_of(name), 0, "cannot lock", -result);
  }
  return lock;
}

}  // namespace reprise::record
