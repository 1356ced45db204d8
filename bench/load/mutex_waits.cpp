#include "mutex_waits.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <chrono>

namespace bench {

std::uint64_t& mutex_waits_ns() noexcept {
  thread_local constinit std::uint64_t waited = 0;
  return waited;
}

}  // namespace bench

/// Replaces the system's function, because the linker finds this program's symbol first. Counts the
/// time for which a mutex that another thread holds makes the caller wait.
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t*);
  // A free mutex is locked without reading the clock.
  if (const int tried = pthread_mutex_trylock(mutex); tried != EBUSY) {
    return tried;
  }
  static const Lock kLock = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  const auto start = std::chrono::steady_clock::now();
  const int locked = kLock(mutex);
  bench::mutex_waits_ns() += static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
  return locked;
}
