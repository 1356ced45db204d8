#pragma once

#include "record/bytes.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::record {

// The interface to the operating system. Its calls return what system calls return: a value of at
// least 0 or minus an error number. They may be interrupted (-EINTR), and may read or write less
// than asked. files.hpp handles this, so that tests can inject each fault through this interface.

/// An open file. Thread safety: as for a plain object.
class File {
 public:
  virtual ~File() = default;
  /// Returns the number of bytes written.
  virtual std::int64_t write_at(Bytes bytes, std::uint64_t offset) = 0;
  /// Returns the number of bytes read, 0 at the end of the file.
  virtual std::int64_t read_at(WritableBytes room, std::uint64_t offset) = 0;
  virtual std::int64_t size() = 0;
  /// Once this has returned 0, contents and size are on the disk.
  virtual int sync() = 0;
};

/// A lock of a file, also against other processes. It is held until this object is destroyed.
class Lock {
 public:
  virtual ~Lock() = default;
};

enum class LockMode : std::uint8_t { Shared, Exclusive };

/// An open directory. Names are plain file names, so that no path is looked up twice.
///
/// Thread safety: any thread.
class Directory {
 public:
  virtual ~Directory() = default;
  /// Creates a file for writing. -EEXIST if the name exists.
  virtual int create(const std::string& name, std::unique_ptr<File>& file) = 0;
  /// Opens for reading. -EINVAL unless the name is that of a regular file; a link is not one.
  virtual int open(const std::string& name, std::unique_ptr<File>& file) = 0;
  /// Replaces `to`.
  virtual int rename(const std::string& from, const std::string& to) = 0;
  virtual int remove(const std::string& name) = 0;
  virtual int list(std::vector<std::string>& names) = 0;
  /// Once this has returned 0, what earlier calls of `create`, `rename` and `remove` did is on the
  /// disk.
  virtual int sync() = 0;
  /// Does not wait: -EWOULDBLOCK if the lock is taken. `Exclusive` creates the file if need be.
  virtual int lock(const std::string& name, LockMode mode, std::unique_ptr<Lock>& lock) = 0;
};

enum class IfAbsent : std::uint8_t { Fail, Create };

/// Thread safety: any thread.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  /// Opens a directory. With `Create`, makes it if need be, with those above it; once this has
  /// returned 0, their names are on the disk.
  virtual int open_directory(const std::string& path, IfAbsent if_absent,
                             std::unique_ptr<Directory>& directory) = 0;
};

}  // namespace reprise::record
