#pragma once

#include <reprise/wait_hook.hpp>

#include "errors.hpp"
#include "released.hpp"

#include <pybind11/pybind11.h>
#include <sys/types.h>

#include <chrono>
#include <exception>
#include <optional>

/// Lets signals end waits, and guards objects that one thread may use at a time.
namespace reprise::python {

using Clock = std::chrono::steady_clock;

/// How long a call waits without the GIL before it looks for signals.
inline constexpr std::chrono::nanoseconds kSlice = std::chrono::milliseconds(50);

/// Runs Python's signal handlers and throws what they raise, for example KeyboardInterrupt.
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

/// Gives the GIL up for as long as it lives, if the caller says so.
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

/// Runs signal handlers while a call waits in C++, so that it stays one wait there. Outside `wait`
/// it keeps calls from waiting: they try once, which no statistics count.
class SignalHook final : public WaitHook {
 public:
  SignalHook();
  /// Runs a call that may wait, without the GIL. If a handler raised meanwhile, its exception is
  /// thrown instead of the result or the exception of the call. In a child that a handler forked,
  /// the call is stopped.
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
  /// Keeps the rest of the call from waiting: what it still does is tried once.
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

/// Marks an object as in use while one of its calls runs. The GIL guards the mark: it is held when
/// a mark is made or removed, and given up only in between.
class InUse {
 public:
  /// RuntimeError if another call of the object is under way, in another thread or further up the
  /// stack.
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
