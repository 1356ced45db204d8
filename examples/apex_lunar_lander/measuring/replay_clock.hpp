#pragma once

#include "random.hpp"

#include <chrono>
#include <cstdint>

namespace apex {

/// How long a thread ran: on the wall, on a core, and on a core within replay calls (an estimate).
struct ReplayTime {
  std::chrono::nanoseconds wall{0};
  std::chrono::nanoseconds working{0};
  std::chrono::nanoseconds in_replay{0};

  ReplayTime& operator+=(const ReplayTime& other) noexcept {
    wall += other.wall;
    working += other.working;
    in_replay += other.in_replay;
    return *this;
  }
};

/// Estimates the core time that one thread spends in replay calls.
///
/// The thread's core clock neither counts sleep nor time when another thread has the core, but
/// reading it is a system call that costs more than most replay calls. So only one block of calls
/// in `kOneIn` is timed, at random, so that nothing periodic can hide; the cost of reading the
/// clock is measured first and taken off.
///
/// Thread safety: made and used in the thread that it times.
class ReplayClock {
 public:
  static constexpr std::uint64_t kOneIn = 16;

  explicit ReplayClock(std::uint64_t seed);

  /// Times the calls made while it lives, or does not.
  class Block {
   public:
    explicit Block(ReplayClock& clock) noexcept;
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

   private:
    ReplayClock* clock_;  // Null: not timed.
    std::chrono::nanoseconds start_{0};
  };

  [[nodiscard]] Block block() noexcept { return Block(*this); }
  [[nodiscard]] ReplayTime time() const noexcept;

 private:
  Random random_;
  std::chrono::steady_clock::time_point wall_start_;
  std::chrono::nanoseconds working_start_;
  std::chrono::nanoseconds clock_cost_;
  std::chrono::nanoseconds timed_{0};
};

}  // namespace apex
