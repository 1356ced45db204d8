#pragma once

#include "errors.hpp"
#include "released.hpp"

#include <pybind11/pybind11.h>

#include <chrono>
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

/// A timeout cut into slices.
class Deadline {
 public:
  explicit Deadline(std::chrono::nanoseconds timeout) noexcept
      : start_(Clock::now()), timeout_(timeout) {}

  [[nodiscard]] std::chrono::nanoseconds waited() const noexcept { return Clock::now() - start_; }
  [[nodiscard]] bool passed() const noexcept { return waited() >= timeout_; }
  /// The time to wait for next: a slice, or what is left.
  [[nodiscard]] std::chrono::nanoseconds slice() const noexcept;

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
