#pragma once

#include "testing/test.hpp"

#include <memory_resource>

namespace reprise::test {

/// A memory resource that counts its allocations, and the bytes that were not deallocated yet.
class CountingResource final : public std::pmr::memory_resource {
 public:
  [[nodiscard]] std::size_t allocations() const { return allocations_; }
  [[nodiscard]] std::size_t live_bytes() const { return live_bytes_; }
  [[nodiscard]] std::size_t total_bytes() const { return total_bytes_; }
  /// Whether the pointer lies in the last block handed out.
  [[nodiscard]] bool in_last_block(const void* pointer) const {
    const auto* const byte = static_cast<const std::byte*>(pointer);
    return byte >= last_ && byte < last_ + last_bytes_;
  }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* const block = std::pmr::new_delete_resource()->allocate(bytes, alignment);
    ++allocations_;
    live_bytes_ += bytes;
    total_bytes_ += bytes;
    last_ = static_cast<const std::byte*>(block);
    last_bytes_ = bytes;
    return block;
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    live_bytes_ -= bytes;
    std::pmr::new_delete_resource()->deallocate(block, bytes, alignment);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::size_t allocations_ = 0;
  std::size_t live_bytes_ = 0;
  std::size_t total_bytes_ = 0;
  const std::byte* last_ = nullptr;
  std::size_t last_bytes_ = 0;
};

}  // namespace reprise::test
