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

/// A recorded call to a file system, with all that determines which files a crash leaves.
struct Operation {
  enum class Kind : std::uint8_t { Create, Write, SyncFile, Rename, Remove, SyncDirectory, Mark };

  Kind kind = Kind::Mark;
  /// The number of the file, which is never reused; for a mark, the mark's value.
  std::uint64_t file = 0;
  std::string name;  ///< The file's name; for a renaming, the old name.
  std::string to;    ///< For a renaming, the new name.
  std::uint64_t offset = 0;
  std::vector<std::byte> bytes;
};

using MemoryFiles = std::map<std::string, std::vector<std::byte>>;

/// The name of the single directory of a memory file system.
inline constexpr const char* kDirectory = "checkpoints";

/// A file system in memory with a single directory, which records its calls. Thread-safe.
class MemoryFileSystem final : public record::FileSystem {
 public:
  MemoryFileSystem() = default;
  explicit MemoryFileSystem(const MemoryFiles& files);

  int open_directory(const std::string& path, record::IfAbsent if_absent,
                     std::unique_ptr<record::Directory>& directory) override;

  /// Copies of all files.
  [[nodiscard]] MemoryFiles files() const;
  /// Creates a file with these contents, or replaces the contents.
  void put(const std::string& name, std::vector<std::byte> bytes);
  void erase(const std::string& name);

  /// Records a mark, by which tests find a place among the operations.
  void mark(std::uint64_t value);
  [[nodiscard]] const std::vector<Operation>& operations() const { return operations_; }
  /// Records no more operations, which saves memory where many bytes are written.
  void stop_recording() { recording_ = false; }

 private:
  friend class MemoryDirectory;
  friend class MemoryFile;
  friend class MemoryLock;

  struct Contents {
    std::uint64_t number = 0;
    std::vector<std::byte> bytes;
  };
  void record_operation(Operation operation);

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Contents>> files_;
  std::map<std::string, int> locks_;  ///< Number of readers, or -1 for an exclusive lock.
  std::vector<Operation> operations_;
  std::uint64_t last_number_ = 0;  ///< Of a file.
  bool recording_ = true;
};

}  // namespace reprise::test
