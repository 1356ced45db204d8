#pragma once

#include "record/bytes.hpp"
#include "record/file_system.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::record {

/// A file whose calls do everything that was asked, or throw `CheckpointError`. An interrupted call
/// is repeated; a call that read or wrote less than asked goes on where it stopped.
///
/// Thread safety: one thread at a time.
class StoredFile {
 public:
  StoredFile(std::unique_ptr<File> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  void write(Bytes bytes, std::uint64_t offset);
  /// Fills the room. Throws `Damaged` if the file ends earlier.
  void read(WritableBytes room, std::uint64_t offset);
  [[nodiscard]] std::uint64_t size();
  /// After an error the file must be given up, and not be synced again: the system may have dropped
  /// what it could not write, and reports that only once.
  void sync();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::unique_ptr<File> file_;
  std::string path_;
};

/// A directory with the retry and error handling of `StoredFile`.
///
/// Thread safety: any thread.
class Folder {
 public:
  /// Throws `Missing` if the directory does not exist and is not to be created.
  Folder(FileSystem& file_system, std::string path, IfAbsent if_absent);

  [[nodiscard]] StoredFile create(const std::string& name);
  /// Throws `Missing` if there is no such file, and `Damaged` if the name is of no regular file.
  [[nodiscard]] StoredFile open(const std::string& name);
  [[nodiscard]] bool exists(const std::string& name);
  void rename(const std::string& from, const std::string& to);
  /// Returns false if the file is still there. Never throws, because removing only frees space.
  bool try_remove(const std::string& name) noexcept;
  [[nodiscard]] std::vector<std::string> list();
  void sync();

  /// Takes a lock without waiting. Null if another process or object has it, and for a shared lock
  /// also after any other error.
  [[nodiscard]] std::unique_ptr<Lock> lock(const std::string& name, LockMode mode);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string path_of(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  std::unique_ptr<Directory> directory_;
};

}  // namespace reprise::record
