#pragma once

#include <cstdint>

namespace bench {

/// Nanoseconds for which the calling thread waited for mutexes that others held. A program that
/// links mutex_waits.cpp has every pthread_mutex_lock counted, those of the library included.
std::uint64_t& mutex_waits_ns() noexcept;

}  // namespace bench
