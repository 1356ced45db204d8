#pragma once

#include <reprise/rate_limiter.hpp>

#include "checks/arrivals.hpp"

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace stress {

/// How often others of one kind, writers or samplers, were let in while one of them waited for the
/// rate limiter (I12). Any thread; all relaxed, as the counts are of about the moment of a call.
struct Turns {
  std::uint64_t most = 0;  ///< Others may be let in so often during a wait.
  std::atomic<std::uint64_t> let_in = 0;
  std::atomic<std::uint64_t> waits = 0;
  std::atomic<std::uint64_t> passed = 0;   ///< Waits during which that happened more often.
  std::atomic<std::uint64_t> longest = 0;  ///< The most often.
};

/// Sees the waits of one writer or sampler. One thread.
///
/// A wait that the system interrupted is left out: the thread may have been stopped before it stood
/// in line, or after its turn.
class WaitWatch final : public reprise::WaitHook {
 public:
  explicit WaitWatch(Turns& turns) : turns_(turns) {}

  [[nodiscard]] bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
    if (waited.count() == 0) {
      waits_ = true;
      before_ = turns_.let_in.load(std::memory_order_relaxed);
      interruptions_ = interruptions();
    }
    return true;
  }

  /// The call is over, and was let in so many times. `asleep`: one that was let in may have slept
  /// on for a while, so that its wait says nothing.
  void done(std::uint64_t admissions, bool asleep) noexcept {
    const std::uint64_t now = turns_.let_in.fetch_add(admissions, std::memory_order_relaxed);
    if (waits_ && !(asleep && admissions != 0) && interruptions() == interruptions_) {
      turns_.waits.fetch_add(1, std::memory_order_relaxed);
      turns_.passed.fetch_add(now - before_ > turns_.most ? 1 : 0, std::memory_order_relaxed);
      raise(turns_.longest, now - before_);
    }
    waits_ = false;
  }

 private:
  static long interruptions() noexcept {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
  }

  Turns& turns_;
  bool waits_ = false;
  std::uint64_t before_ = 0;
  long interruptions_ = 0;
};

}  // namespace stress
