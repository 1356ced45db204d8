#pragma once

#include <chrono>

namespace apex {

/// How long one thread ran, and how long it spent in replay calls, waits included.
struct ReplayTime {
  std::chrono::nanoseconds in_replay{0};
  std::chrono::nanoseconds total{0};

  ReplayTime& operator+=(const ReplayTime& other) noexcept {
    in_replay += other.in_replay;
    total += other.total;
    return *this;
  }
};

/// Adds up the time of blocks of replay calls. Two clock readings, which need no system call, go
/// round a block that serves all environments of a thread, so that measuring costs less than what
/// is measured.
class ReplayClock {
 public:
  using Clock = std::chrono::steady_clock;

  class Block {
   public:
    explicit Block(ReplayClock& clock) : clock_(clock), start_(Clock::now()) {}
    ~Block() { clock_.in_replay_ += Clock::now() - start_; }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

   private:
    ReplayClock& clock_;
    Clock::time_point start_;
  };

  [[nodiscard]] Block block() { return Block(*this); }
  [[nodiscard]] ReplayTime time() const { return {in_replay_, Clock::now() - start_}; }

 private:
  Clock::time_point start_ = Clock::now();
  std::chrono::nanoseconds in_replay_{0};
};

}  // namespace apex
