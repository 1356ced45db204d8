#pragma once

#include <reprise/wait_hook.hpp>

#include "errors.hpp"
#include "released.hpp"

#include <pybind11/pybind11.h>
#include <sys/types.h>

#include <chrono>
#include <exception>
#include <optional>

/// Waits that a signal can end, and objects that one thread uses at a time.
namespace reprise::python {

using Clock = std::chrono::steady_clock;

/// How long a call waits without the GIL before it looks for signals.
inline constexpr std::chrono::nanoseconds kSlice = std::chrono::milliseconds(50);

/// Runs Python's signal handlers; throws what they raise, KeyboardInterrupt above all.
inline void check_signals() {
  if (PyErr_CheckSignals() != 0) {
    throw py::error_already_set();
  }
}

/// Seconds, or None for no limit. ValueError for a negative number or NaN, TypeError for anything
/// that is no number.
[[nodiscard]] std::chrono::nanoseconds timeout_from(PyObject* seconds, const char* call);

/// A timeout that several waits share.
class Deadline {
 public:
  explicit Deadline(std::chrono::nanoseconds timeout) noexcept
      : start_(Clock::now()), timeout_(timeout) {}

  [[nodiscard]] std::chrono::nanoseconds waited() const noexcept { return Clock::now() - start_; }
  /// 0 once it has passed.
  [[nodiscard]] std::chrono::nanoseconds left() const noexcept;

 private:
  Clock::time_point start_;
  std::chrono::nanoseconds timeout_;
};

/// Gives the GIL up for as long as it lives, if that is worth it.
class MaybeReleased {
 public:
  explicit MaybeReleased(bool release) {
    if (release) {
      released_.emplace();
    }
  }

 private:
  std::optional<Released> released_;
};

/// Looks for signals while a call waits in C++, where it stays one wait. Outside `wait` it keeps
/// calls from waiting at all: they try once, which no statistics count.
class SignalHook final : public WaitHook {
 public:
  SignalHook();
  /// Runs a call that may wait, without the GIL. What a handler raised meanwhile is thrown, rather
  /// than what the call gives or throws. In a child that a handler forked, the call was stopped.
  template <class Call>
  auto wait(const Call& call) {
    decltype(call()) result{};
    try {
      const Released released;
      const Allowed allowed(waiting_);
      result = call();
    } catch (...) {
      rethrow();
      throw;
    }
    rethrow();
    return result;
  }
  /// For the rest of the call that waits: what it does further is tried once.
  void only_try() noexcept { waiting_ = false; }
  [[nodiscard]] bool keep_waiting(std::chrono::nanoseconds waited) noexcept override;

 private:
  class Allowed {
   public:
    explicit Allowed(bool& waiting) noexcept : waiting_(waiting) { waiting = true; }
    ~Allowed() { waiting_ = false; }
    Allowed(const Allowed&) = delete;
    Allowed& operator=(const Allowed&) = delete;

   private:
    bool& waiting_;
  };
  void rethrow();

  const ::pid_t maker_;
  bool waiting_ = false;
  std::exception_ptr failure_;  ///< The exception that a handler raised.
};

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

}  // namespace reprise::python
