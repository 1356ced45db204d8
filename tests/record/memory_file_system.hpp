#pragma once

#include "record/file_system.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace reprise::test {

/// What a file system was asked to do, in order: all that decides what a crash leaves.
struct Operation {
  enum class Kind : std::uint8_t { Create, Write, SyncFile, Rename, Remove, SyncDirectory, Mark };

  Kind kind = Kind::Mark;
  std::uint64_t file = 0;  ///< A number for each file ever made. Of a mark: its value.
  std::string name;        ///< Of a renaming: the old one.
  std::string to;
  std::uint64_t offset = 0;
  std::vector<std::byte> bytes;
};

using MemoryFiles = std::map<std::string, std::vector<std::byte>>;

/// A file system of one directory, in memory, which remembers what was asked of it. Every path is
/// that directory. Thread safety: any thread.
class MemoryFileSystem final : public record::FileSystem {
 public:
  MemoryFileSystem() = default;
  explicit MemoryFileSystem(const MemoryFiles& files);

  int open_directory(const std::string& path, record::IfAbsent if_absent,
                     std::unique_ptr<record::Directory>& directory) override;

  /// All files, with their contents.
  [[nodiscard]] MemoryFiles files() const;
  /// Replaces a file's contents, or makes it.
  void put(const std::string& name, std::vector<std::byte> bytes);
  void erase(const std::string& name);

  /// Notes something of the test's own among the operations.
  void mark(std::uint64_t value);
  [[nodiscard]] const std::vector<Operation>& operations() const { return operations_; }
  /// Off where many bytes are written.
  void record(bool yes) { recording_ = yes; }

 private:
  friend class MemoryDirectory;
  friend class MemoryFile;
  friend class MemoryLock;

  struct Contents {
    std::uint64_t number = 0;
    std::vector<std::byte> bytes;
  };
  void note(Operation operation);

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Contents>> files_;
  std::map<std::string, int> locks_;  ///< Readers, or -1 for one who excludes others.
  std::vector<Operation> operations_;
  std::uint64_t made_ = 0;
  bool recording_ = true;
};

}  // namespace reprise::test
