#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace reprise {

/// Counts and durations of one kind of wait since the buffer was made.
struct WaitStats {
  std::uint64_t waits = 0;      ///< Calls that had to wait at least once.
  std::uint64_t timeouts = 0;   ///< Of these, calls that gave up.
  std::uint64_t stops = 0;      ///< Of these, calls that a stop token or a hook ended.
  std::size_t waiting_now = 0;  ///< Calls waiting at this moment.
  /// How long somebody has been waiting without a break; 0 if nobody is.
  std::chrono::nanoseconds waiting_for{0};
  std::chrono::nanoseconds total{0};    ///< Of waits that have ended.
  std::chrono::nanoseconds longest{0};  ///< Of waits that have ended.
};

}  // namespace reprise
