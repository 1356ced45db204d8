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

/// Waits without the GIL that a signal can end, objects that one thread uses at a time, and
/// threads.
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

/// Gives the GIL up for as long as it lives, if that is worth it. A thread that Python ends as it
/// takes the GIL back sleeps: see forced_unwind.cpp.
class Released {
 public:
  explicit Released(bool worth_it = true) noexcept
      : state_(worth_it ? PyEval_SaveThread() : nullptr) {}
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() {
    if (state_ != nullptr) {
      PyEval_RestoreThread(state_);
    }
  }

 private:
  PyThreadState* state_;
};

/// Runs a call without the GIL.
template <class Call>
auto without_gil(const Call& call) {
  const Released released;
  return call();
}

/// Marks an object as in use while one of its calls runs. The GIL guards the mark: it is held
/// where marks are made and removed, and only between them given up.
class InUse {
 public:
  /// RuntimeError if a call of another thread, or one further up the stack, is under way.
  InUse(bool& mark, const char* what) : mark_(mark) {
    if (mark) {
      refuse(what);
    }
    mark = true;
  }
  ~InUse() { mark_ = false; }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  [[noreturn]] static void refuse(const char* what);
  bool& mark_;
};

/// Looks for signals while a call waits in C++, where it stays one wait. Outside `wait` it keeps
/// calls from waiting at all: they try once, which no statistics count.
class SignalHook final : public WaitHook {
 public:
  /// `stats`: those of the buffer that the call waits for, in whose words a wait without a timeout
  /// is told that goes on for some seconds, as a warning of Python.
  explicit SignalHook(std::function<Stats()> stats);
  /// Runs a call that may wait, without the GIL; no wait begins after the timeout. What a handler
  /// raised meanwhile is thrown, rather than what the call gives or throws. In a child that a
  /// handler forked, the call was stopped.
  template <class Call>
  auto wait(std::chrono::nanoseconds timeout, const Call& call) {
    decltype(call()) result{};
    try {
      const InUse allowed(waiting_, "SignalHook");
      const Released released;
      first_ = true;
      told_ = false;
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
  const ::pid_t maker_;
  bool waiting_ = false;
  /// No wait has begun. The first one begins whatever the timeout is, and its time with it.
  bool first_ = false;
  bool told_ = false;  ///< The warning of this wait was given.
  Clock::time_point start_;
  std::chrono::nanoseconds timeout_{0};
  std::exception_ptr failure_;  ///< The exception that a handler raised.
};

/// Looks for signals in calls that wait for another process, of any threads at once, each for
/// itself: `run` around such a call throws what a handler has raised.
class HostHook final : public WaitHook {
 public:
  [[nodiscard]] static HostHook& instance() noexcept;
  /// Runs a call, with the GIL or without. What a handler raised meanwhile is thrown, rather than
  /// what the call gives or throws.
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

/// A thread of an object, without the GIL. In a forked child it does not exist, its handle may name
/// another one, and locks that it held stay locked: there nothing of it is destroyed.
class OwnThread {
 public:
  /// `work` keeps what it uses, and ends soon after stop is requested.
  explicit OwnThread(std::function<void(std::stop_token)> work);
  ~OwnThread() { end(); }
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;

  /// Ends the thread. Needs the GIL.
  void end() noexcept;
  /// Throws what the work has thrown, once the thread has ended.
  void rethrow() const;

 private:
  struct Run;
  std::shared_ptr<Run> run_;
  const ::pid_t maker_;  ///< The process whose thread it is.
};

/// Runs work on a thread of its own, without the GIL, that ends soon after stop is requested: when
/// a signal handler raises, which is then thrown.
void run_interruptibly(const std::function<void(std::stop_token)>& work);

}  // namespace reprise::python
