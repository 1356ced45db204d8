#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <utility>

namespace reprise::base {

/// A range of memory, zeroed at first, whose pages belong to a file without a name. Disk space must
/// be set aside before a page is written to; otherwise a full disk raises SIGBUS.
///
/// Forked children do not have the range, because the parent would see what they write.
///
/// Thread safety: as for a plain array; `set_aside`, `will_need` and `disk_bytes` from any thread.
class MappedFile {
 public:
  MappedFile() noexcept = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        descriptor_(std::exchange(other.descriptor_, -1)),
        creator_pid_(other.creator_pid_) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  /// Makes the file in a directory, or in the parent of a name that does not exist; `bytes` is at
  /// least 1. Throws `std::system_error` naming the path.
  static MappedFile make(const std::filesystem::path& path, std::size_t bytes);

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Allocates disk space for a part of the range, whose contents stay. Returns 0 or an errno
  /// value.
  [[nodiscard]] int set_aside(std::size_t offset, std::size_t bytes) const noexcept;

  /// Advice: this part is about to be read, so reading it from the disk may begin.
  void will_need(const std::byte* from, std::size_t bytes) const noexcept;

  /// Advice: the contents of this part are not needed any more. If some of it has left memory, its
  /// whole pages become zero in the file, so that later writes need not read them from the disk.
  /// The disk space stays.
  void wont_need(std::size_t offset, std::size_t bytes) const noexcept;

  /// Disk space that the file takes.
  [[nodiscard]] std::size_t disk_bytes() const noexcept;

 private:
  MappedFile(int descriptor, std::int64_t maker) noexcept
      : descriptor_(descriptor), creator_pid_(maker) {}

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;
  std::int64_t creator_pid_ = 0;  ///< Process id.
};

/// How much the system has read from the disk for this thread, page faults and read-ahead included;
/// 0 if the system does not say. Only differences have a meaning. Costs a system call.
[[nodiscard]] std::uint64_t disk_reads() noexcept;

}  // namespace reprise::base
