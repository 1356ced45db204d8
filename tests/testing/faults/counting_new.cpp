#include "counting_new.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace reprise::test {
namespace {

// All accesses are relaxed: tests read the count after joining the counted threads, or in the only
// thread.
std::atomic<std::size_t> allocation_count = 0;
thread_local std::size_t countdown = 0;
thread_local bool failed = false;

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  if (countdown > 0 && --countdown == 0) {
    failed = true;
    return nullptr;
  }
  if (alignment <= alignof(std::max_align_t)) {
    return std::malloc(bytes == 0 ? 1 : bytes);
  }
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const block = allocate(bytes, alignment);
  if (block == nullptr) {
    throw std::bad_alloc();
  }
  return block;
}

constexpr std::size_t kDefaultAlignment = alignof(std::max_align_t);

}  // namespace

std::size_t allocations() {
  return allocation_count.load(std::memory_order_relaxed);
}

void fail_allocation(std::size_t k) {
  countdown = k;
  failed = false;
}

bool allocation_failed() {
  return failed;
}

}  // namespace reprise::test

// By default, the array forms of operator new and delete call the forms below.
void* operator new(std::size_t bytes) {
  return reprise::test::allocate_or_throw(bytes, reprise::test::kDefaultAlignment);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return reprise::test::allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return reprise::test::allocate(bytes, reprise::test::kDefaultAlignment);
}
void* operator new(std::size_t bytes, std::align_val_t alignment,
                   const std::nothrow_t& /*tag*/) noexcept {
  return reprise::test::allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t /*bytes*/) noexcept {
  std::free(block);
}
void operator delete(void* block, std::align_val_t /*alignment*/) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(block);
}
