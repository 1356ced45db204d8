#include "base/memory.hpp"

#include <sys/mman.h>

#include <cstdint>

namespace reprise::base {

namespace {

std::byte* map_pages(std::size_t bytes) {
  void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) {
    throw std::bad_alloc();
  }
  return static_cast<std::byte*>(pages);
}

std::size_t mapped_bytes(std::size_t bytes) {
  constexpr std::size_t kAlign = Region::kHugePageBytes;
  return bytes >= kAlign ? (bytes + kAlign - 1) / kAlign * kAlign : bytes;
}

/// Maps one huge page more than asked and unmaps the parts outside the aligned range.
std::byte* map_aligned(std::size_t used) {
  constexpr std::size_t kAlign = Region::kHugePageBytes;
  std::byte* const pages = map_pages(used + kAlign);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(pages) % kAlign;
  const std::size_t before = past == 0 ? 0 : kAlign - past;
  if (before > 0) {
    ::munmap(pages, before);
  }
  ::munmap(pages + before + used, kAlign - before);
  return pages + before;
}

}  // namespace

Region Region::map(std::size_t bytes) {
  if (bytes == 0) {
    return {};
  }
  if (bytes > std::numeric_limits<std::size_t>::max() - 2 * kHugePageBytes) {
    throw std::bad_alloc();
  }
  const std::size_t used = mapped_bytes(bytes);
  std::byte* const pages = bytes >= kHugePageBytes ? map_aligned(used) : map_pages(used);
  // Small regions need the advice too, because the system may join neighbours and put them on one
  // huge page. If it ignores the advice, more memory may be in use than was touched.
  ::madvise(pages, used, MADV_NOHUGEPAGE);
  return {pages, bytes};
}

void Region::expect_full(std::size_t first, std::size_t count) const noexcept {
  const std::size_t begin = (first + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const std::size_t end = (first + count) / kHugePageBytes * kHugePageBytes;
  if (begin < end) {
    // Advice only: without huge pages everything works, more slowly.
    ::madvise(data() + begin, end - begin, MADV_HUGEPAGE);
  }
}

Region::~Region() {
  if (data_ != nullptr) {
    ::munmap(data_, mapped_bytes(size_));
  }
}

}  // namespace reprise::base
