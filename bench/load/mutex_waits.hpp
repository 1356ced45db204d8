#pragma once

#include <cstdint>

namespace bench {

/// Nanoseconds that the calling thread has waited for mutexes that other threads held. Linking
/// mutex_waits.cpp makes every pthread_mutex_lock of the program count, including the library's.
std::uint64_t& mutex_waits_ns() noexcept;

}  // namespace bench
