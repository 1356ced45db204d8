#pragma once

#include <reprise/options.hpp>
#include <reprise/rate_limiter.hpp>

#include "errors.hpp"

#include <sys/types.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

/// Waits without the GIL that signals can end, objects that one thread uses at a time, and threads.
namespace reprise::python {

/// How long a call waits without the GIL before it looks for signals.
inline constexpr std::chrono::nanoseconds kSlice = std::chrono::milliseconds(50);

/// Copies of more than this many bytes are made without the GIL.
inline constexpr std::size_t kCopyWithGil = 512;

/// Runs Python's signal handlers; throws what they raise, KeyboardInterrupt above all.
inline void check_signals() {
  if (PyErr_CheckSignals() != 0) {
    throw nb::python_error();
  }
}

/// Releases the GIL while it lives, if that is worth its cost. A thread that Python would end when
/// it takes the GIL back sleeps instead: see forced_unwind.cpp.
class GilRelease {
 public:
  explicit GilRelease(bool release = true) noexcept
      : state_(release ? PyEval_SaveThread() : nullptr) {}
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
  ~GilRelease() {
    if (state_ != nullptr) {
      PyEval_RestoreThread(state_);
    }
  }

 private:
  PyThreadState* state_;
};

template <class Call>
auto without_gil(const Call& call) {
  const GilRelease released;
  return call();
}

/// The statistics from which a message says why a call waits. Empty if `stats` throws: what it asks
/// is closed, or is another process that does not answer soon.
[[nodiscard]] std::optional<Stats> stats_for_message(const std::function<Stats()>& stats) noexcept;

/// Marks an object as in use while one of its calls runs. The GIL guards the mark: the GIL is held
/// where marks are made and removed, and released only in between.
class InUse {
 public:
  /// RuntimeError if a call of another thread, or an outer call of this one, is under way.
  InUse(bool& mark, const char* class_name) : mark_(mark) {
    if (mark) {
      refuse(class_name);
    }
    mark = true;
  }
  ~InUse() { mark_ = false; }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  [[noreturn]] static void refuse(const char* class_name);
  bool& mark_;
};

/// Runs signal handlers while a call waits in C++, without ending the wait. A call that is not made
/// by `wait` does not wait: it tries once, and no statistics count that as a wait.
class SignalHook final : public WaitHook {
 public:
  /// `stats` gives the statistics of the buffer that the call waits for. From them comes the text
  /// of the warning that a wait without a timeout gives after some seconds.
  explicit SignalHook(std::function<Stats()> stats);
  /// Runs a call that may wait, without the GIL; no wait begins after the timeout. An exception of
  /// a signal handler is thrown in place of what the call returns or throws. In a child that a
  /// handler forked, the call ends at once.
  template <class Call>
  auto wait(std::chrono::nanoseconds timeout, const Call& call) {
    decltype(call()) result{};
    try {
      const InUse allowed(waiting_, "SignalHook");
      const GilRelease released;
      before_first_wait_ = true;
      warned_ = false;
      timeout_ = timeout;
      result = call();
    } catch (...) {
      rethrow();
      throw;
    }
    rethrow();
    return result;
  }
  [[nodiscard]] bool keep_waiting(std::chrono::nanoseconds waited) noexcept override;

 private:
  void rethrow();
  [[nodiscard]] std::string reason(std::chrono::nanoseconds waited) const;

  using Clock = std::chrono::steady_clock;
  const std::function<Stats()> stats_;
  const ::pid_t owner_process_;
  bool waiting_ = false;
  /// True until the call waits: its first wait starts the clock, and begins even if the timeout is
  /// 0.
  bool before_first_wait_ = false;
  bool warned_ = false;  ///< Whether this wait has warned.
  Clock::time_point start_;
  std::chrono::nanoseconds timeout_{0};
  std::exception_ptr failure_;  ///< The exception that a handler raised.
};

/// Looks for signals in calls that wait for another process. Any number of threads may use it at
/// once: `run` throws what a handler raised in the thread that called `run`.
class HostHook final : public WaitHook {
 public:
  [[nodiscard]] static HostHook& instance() noexcept;
  /// Runs a call, with the GIL or without. If a handler raises meanwhile, throws its exception.
  template <class Call>
  static auto run(const Call& call) {
    try {
      auto result = call();
      rethrow();
      return result;
    } catch (...) {
      rethrow();
      throw;
    }
  }
  [[nodiscard]] bool keep_waiting(std::chrono::nanoseconds waited) noexcept override;

 private:
  static void rethrow();
};

/// A thread that an object owns and that runs without the GIL. In a forked child the thread does
/// not exist, its handle may name another one, and locks that it held stay locked, so the child
/// destroys nothing of it.
class OwnThread {
 public:
  /// `work` owns what it uses, and returns soon after stop is requested.
  explicit OwnThread(std::function<void(std::stop_token)> work);
  ~OwnThread() { end(); }
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;

  /// Ends the thread. Needs the GIL.
  void end() noexcept;
  /// Throws what `work` has thrown, once the thread has ended.
  void rethrow() const;

 private:
  struct Run;
  std::shared_ptr<Run> run_;
  const ::pid_t owner_process_;  ///< The process that started the thread.
};

/// Runs work on another thread, without the GIL, and handles signals meanwhile. If a handler
/// raises, asks the work to stop, and throws the handler's exception once the work has ended.
void run_interruptibly(const std::function<void(std::stop_token)>& work);

}  // namespace reprise::python
