#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace reprise {

/// Counts and durations of one kind of wait since the buffer was made.
struct WaitStats {
  std::uint64_t waits = 0;      ///< Calls that had to wait at least once.
  std::uint64_t timeouts = 0;   ///< Waits that a timeout ended.
  std::uint64_t stops = 0;      ///< Waits that a stop token or a hook ended.
  std::size_t waiting_now = 0;  ///< Calls waiting at this moment.
  /// Time for which at least one thread has been waiting without a break; 0 if none is.
  std::chrono::nanoseconds waiting_for{0};
  std::chrono::nanoseconds total{0};    ///< Sum of the waits that have ended.
  std::chrono::nanoseconds longest{0};  ///< Longest wait that has ended.
};

}  // namespace reprise
