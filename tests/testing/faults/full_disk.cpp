#include "full_disk.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <limits>

namespace reprise::test {
namespace {

constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
/// The bytes left on the disk. All accesses are relaxed, because no other data depends on them.
std::atomic<std::int64_t>& room() {
  static std::atomic<std::int64_t> bytes = kAll;
  return bytes;
}

}  // namespace

void set_free_disk_bytes(std::size_t bytes) {
  room().store(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
}
void restore_disk_space() {
  room().store(kAll, std::memory_order_relaxed);
}

}  // namespace reprise::test

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the system's are reserved.
extern "C" int posix_fallocate(int file, off_t offset, off_t bytes) {
  std::atomic<std::int64_t>& room = reprise::test::room();
  std::int64_t left = room.load(std::memory_order_relaxed);
  do {
    if (left < bytes) {
      return ENOSPC;
    }
  } while (left != reprise::test::kAll &&
           !room.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed));
  return ::syscall(SYS_fallocate, file, 0, offset, bytes) == 0 ? 0 : errno;
}
