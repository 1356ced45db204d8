#include "base/disk_reads.hpp"

#if defined(__linux__)
#include <sys/resource.h>
#endif

namespace reprise::base {

std::uint64_t disk_reads() noexcept {
#if defined(__linux__)
  struct rusage usage {};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? static_cast<std::uint64_t>(usage.ru_inblock) : 0;
#else
  return 0;
#endif
}

}  // namespace reprise::base
