#pragma once

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace reprise {

/// Bytes in memory that all copies of the blob share.
class Blob {
 public:
  Blob() = default;
  /// Allocates `size` zero bytes. Throws `std::bad_alloc`.
  explicit Blob(std::size_t size)
      : bytes_(static_cast<std::byte*>(std::calloc(size == 0 ? 1 : size, 1)), std::free),
        size_(size) {
    if (bytes_ == nullptr) {
      throw std::bad_alloc();
    }
  }
  /// Takes the first `size` bytes of memory that the caller has allocated.
  Blob(std::shared_ptr<std::byte> memory, std::size_t size) noexcept
      : bytes_(std::move(memory)), size_(size) {}
  /// The bytes, to be changed.
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {bytes_.get(), size_}; }
  /// The bytes.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {bytes_.get(), size_}; }
  /// Whether the blob has no bytes.
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

 private:
  std::shared_ptr<std::byte> bytes_;
  std::size_t size_ = 0;
};

/// Makes a blob of `size` bytes, of unspecified values, in memory that the blob's reader can map.
using BlobAllocator = std::function<Blob(std::size_t size)>;

}  // namespace reprise
