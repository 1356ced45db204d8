#pragma once

#include <reprise/wait_hook.hpp>

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace stress {

/// How often others of one kind, writers or samplers, were let in while one of them waited for the
/// rate limiter (I12). Any thread.
class Passed {
 public:
  /// `others` being let in so often during a wait is in order.
  void allow(std::uint64_t most) noexcept { most_ = most; }

  // All relaxed: the counts are of about the moment of the call.
  [[nodiscard]] std::uint64_t let_in() const noexcept {
    return let_in_.load(std::memory_order_relaxed);
  }
  void enters(std::uint64_t count) noexcept { let_in_.fetch_add(count, std::memory_order_relaxed); }
  void waited(std::uint64_t passed) noexcept {
    waits_.fetch_add(1, std::memory_order_relaxed);
    too_often_.fetch_add(passed > most_ ? 1 : 0, std::memory_order_relaxed);
    std::uint64_t longest = longest_.load(std::memory_order_relaxed);
    while (longest < passed &&
           !longest_.compare_exchange_weak(longest, passed, std::memory_order_relaxed)) {
    }
  }

  [[nodiscard]] std::uint64_t waits() const noexcept {
    return waits_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t longest() const noexcept {
    return longest_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t too_often() const noexcept {
    return too_often_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t most() const noexcept { return most_; }

 private:
  std::uint64_t most_ = 0;
  std::atomic<std::uint64_t> let_in_ = 0;
  std::atomic<std::uint64_t> waits_ = 0;
  std::atomic<std::uint64_t> longest_ = 0;
  std::atomic<std::uint64_t> too_often_ = 0;
};

/// Sees the waits of one writer or sampler. One thread.
///
/// A wait that the system interrupted is left out: the thread may have been stopped before it stood
/// in line, or after its turn.
class WaitWatch final : public reprise::WaitHook {
 public:
  explicit WaitWatch(Passed& passed) : passed_(passed) {}

  [[nodiscard]] bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
    if (waited.count() == 0) {
      waits_ = true;
      before_ = passed_.let_in();
      interruptions_ = interruptions();
    }
    return true;
  }

  /// The call is over, and was let in so many times. `asleep`: a call that was let in may have
  /// slept on for a while, so its wait says nothing.
  void done(std::uint64_t admissions, bool asleep) noexcept {
    if (waits_ && !(asleep && admissions != 0)) {
      const std::uint64_t now = passed_.let_in();
      if (interruptions() == interruptions_) {
        passed_.waited(now - before_);
      }
    }
    waits_ = false;
    passed_.enters(admissions);
  }

 private:
  static long interruptions() noexcept {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
  }

  Passed& passed_;
  bool waits_ = false;
  std::uint64_t before_ = 0;
  long interruptions_ = 0;
};

}  // namespace stress
