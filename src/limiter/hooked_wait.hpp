#pragma once

#include <reprise/wait_hook.hpp>

#include "base/event.hpp"

#include <algorithm>
#include <chrono>

namespace reprise::limiter {

/// Asks the hook of a call that waits, if it has one. One thread, the call's.
class HookedWait {
 public:
  explicit HookedWait(WaitHook* hook) noexcept : hook_(hook) {
    if (hook != nullptr) {
      start_ = base::Clock::now();
      next_ = start_ + kEvery;
    }
  }

  /// Before the wait begins: whether the hook is against it.
  [[nodiscard]] bool refused_to_begin() const noexcept {
    return hook_ != nullptr && !hook_->keep_waiting(std::chrono::nanoseconds(0));
  }
  /// Whether it was time to ask again, and the hook is against going on. No lock may be held.
  [[nodiscard]] bool refused() noexcept {
    if (hook_ == nullptr) {
      return false;
    }
    const auto now = base::Clock::now();
    if (now < next_) {
      return false;
    }
    const bool keep = hook_->keep_waiting(now - start_);
    next_ = base::Clock::now() + kEvery;
    return !keep;
  }
  /// When to wake at the latest: the deadline, or to ask again.
  [[nodiscard]] base::Clock::time_point until(base::Clock::time_point deadline) const noexcept {
    return hook_ == nullptr ? deadline : std::min(deadline, next_);
  }

 private:
  static constexpr std::chrono::nanoseconds kEvery = std::chrono::milliseconds(50);
  WaitHook* const hook_;
  base::Clock::time_point start_;
  base::Clock::time_point next_;
};

}  // namespace reprise::limiter
