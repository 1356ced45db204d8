#pragma once

#include <reprise/storage.hpp>

#include "base/mapped_file.hpp"
#include "base/memory.hpp"

#include <cstddef>

namespace reprise::storage {

/// A range of zeroed bytes, in memory or in a mapped file. In a file, a part must not be written to
/// before `set_aside` has got disk space for it. Of the advice, `expect_full` concerns only memory,
/// and the rest only files.
///
/// Thread safety: as `base::MappedFile`.
class Pages {
 public:
  /// Throws std::bad_alloc without address space, and std::system_error if the file fails. A range
  /// of 0 bytes has no file.
  Pages(std::size_t bytes, const Storage& storage);

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool in_file() const noexcept { return file_.data() != nullptr; }

  /// Ensures disk space for a part of a file; space that the part has already is kept. Returns 0 or
  /// an errno value.
  [[nodiscard]] int set_aside(std::size_t offset, std::size_t bytes) const noexcept {
    return in_file() ? file_.set_aside(offset, bytes) : 0;
  }
  /// Bytes of disk space of the file; 0 without a file.
  [[nodiscard]] std::size_t disk_bytes() const noexcept {
    return in_file() ? file_.disk_bytes() : 0;
  }

  // Advice; see `base::Region` and `base::MappedFile`.

  void expect_full(std::size_t offset, std::size_t bytes) const noexcept {
    memory_.expect_full(offset, in_file() ? 0 : bytes);
  }
  void wont_need(std::size_t offset, std::size_t bytes) const noexcept {
    if (in_file()) {
      file_.wont_need(offset, bytes);
    }
  }
  void will_need(const std::byte* from, std::size_t bytes) const noexcept {
    if (in_file()) {
      file_.will_need(from, bytes);
    }
  }

 private:
  base::Region memory_;    ///< Empty if the bytes are in a file.
  base::MappedFile file_;  ///< Empty if they are in memory.
  std::byte* data_;
  std::size_t size_;
};

}  // namespace reprise::storage
