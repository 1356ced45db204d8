#include "noted_advice.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <utility>

namespace reprise::test {
namespace {

struct Notes {
  std::vector<std::span<const std::byte>> read_ahead;
  std::optional<long> reads_per_call;
  long reads = 0;
};

Notes& notes() {
  thread_local Notes mine;
  return mine;
}

}  // namespace

void set_disk_reads_per_call(long reads_per_call) {
  notes().reads_per_call = reads_per_call;
}

std::vector<std::span<const std::byte>> take_read_ahead() {
  return std::exchange(notes().read_ahead, {});
}

}  // namespace reprise::test

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the system's are reserved.
extern "C" int madvise(void* from, std::size_t bytes, int advice) noexcept {
  if (advice == MADV_WILLNEED) {
    reprise::test::notes().read_ahead.emplace_back(static_cast<const std::byte*>(from), bytes);
  }
  return static_cast<int>(::syscall(SYS_madvise, from, bytes, advice));
}

extern "C" int getrusage(int whose, struct rusage* usage) noexcept {
  const auto answer = static_cast<int>(::syscall(SYS_getrusage, whose, usage));
  reprise::test::Notes& notes = reprise::test::notes();
  if (notes.reads_per_call) {
    usage->ru_inblock = notes.reads += *notes.reads_per_call;
  }
  return answer;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
