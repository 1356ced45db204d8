#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace reprise::process {

/// A file descriptor, closed with this object.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] bool valid() const noexcept { return number_ >= 0; }

 private:
  int number_ = -1;
};

/// Memory that two processes have mapped, zeroed at first: a file without a name (`memfd_create`),
/// which does not count for the limits of /dev/shm and vanishes with the two processes. Its size is
/// sealed, so that neither process can make the other's accesses fail. A forked child does not have
/// the memory.
class Region {
 public:
  Region() noexcept = default;
  Region(Region&& other) noexcept
      : file_(std::move(other.file_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        creator_pid_(other.creator_pid_) {}
  Region& operator=(Region&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(creator_pid_, other.creator_pid_);
    return *this;
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  /// Makes memory. Throws `std::system_error` if the system has none.
  [[nodiscard]] static Region make(std::size_t bytes);
  /// Maps the first `bytes` of memory that another process made. Throws `std::runtime_error` if the
  /// memory is smaller or may shrink, and `std::system_error` if this process has no address space
  /// or descriptor for it.
  [[nodiscard]] static Region map(Descriptor file, std::size_t bytes);

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] int file() const noexcept { return file_.number(); }

 private:
  Region(Descriptor file, std::size_t bytes);

  Descriptor file_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::int64_t creator_pid_ = 0;  ///< The id of the process that made this object.
};

}  // namespace reprise::process
