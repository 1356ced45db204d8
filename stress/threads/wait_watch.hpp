#pragma once

#include <reprise/rate_limiter.hpp>

#include "checks/arrivals.hpp"
#include "testing/library.hpp"

#include <sys/resource.h>

namespace stress {

/// Counts how often the rate limiter let in other writers (or samplers), which means that it let
/// them go on, while one waited (I12). Any thread. All accesses are relaxed, because the counts
/// need not be of the same moment.
struct Turns {
  std::uint64_t max_allowed = 0;  ///< How often others may be let in during one wait.
  std::atomic<std::uint64_t> let_in = 0;
  std::atomic<std::uint64_t> waits = 0;
  /// Waits during which others were let in more than `max_allowed` times.
  std::atomic<std::uint64_t> passed_over = 0;
  /// The most times that others were let in during one wait.
  std::atomic<std::uint64_t> max_let_in = 0;
};

/// Observes the waits of one writer or sampler. One thread.
///
/// A wait in which the system preempted the thread is left out, because others may have been let in
/// while the thread was ready but not running.
class WaitWatch final : public reprise::WaitHook {
 public:
  /// Which waits count. A writer may sleep on for a while after it is let in, so of its waits only
  /// those that failed do.
  enum class Counted : std::uint8_t { All, Failed };

  WaitWatch(Turns& turns, Counted counted) : turns_(turns), counted_(counted) {}

  [[nodiscard]] bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
    if (waited.count() == 0) {
      waits_ = true;
      before_ = turns_.let_in.load(std::memory_order_relaxed);
      interruptions_ = interruptions();
    }
    return true;
  }

  /// Ends the observation of a call that was let in `admissions` times.
  void end_wait(std::uint64_t admissions) noexcept {
    const std::uint64_t now = turns_.let_in.fetch_add(admissions, std::memory_order_relaxed);
    const bool counts = waits_ && (counted_ == Counted::All || admissions == 0);
    if (counts && interruptions() == interruptions_) {
      const std::uint64_t others = now - before_;
      turns_.waits.fetch_add(1, std::memory_order_relaxed);
      turns_.passed_over.fetch_add(others > turns_.max_allowed ? 1 : 0, std::memory_order_relaxed);
      atomic_max(turns_.max_let_in, others);
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
  const Counted counted_;
  bool waits_ = false;
  std::uint64_t before_ = 0;
  long interruptions_ = 0;
};

}  // namespace stress
