#pragma once

#include <cstdint>

namespace bench {

/// Nanoseconds that the calling thread has waited for mutexes held by others. Linking
/// mutex_waits.cpp counts every pthread_mutex_lock of the program, including those of the library.
std::uint64_t& mutex_waits_ns() noexcept;

}  // namespace bench
