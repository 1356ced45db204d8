#pragma once

#include <pybind11/pybind11.h>

/// The GIL given up, and what becomes of threads that ask for it while Python ends.
namespace reprise::python {

/// Keeps a thread that CPython ends from unwinding further. While the interpreter ends, asking for
/// the GIL in any other thread calls pthread_exit, whose forced unwind aborts the process where it
/// meets a noexcept function or a catch (...). The thread sleeps here instead, until the process is
/// gone, as from Python 3.14 on. Exceptions pass.
class NoForcedUnwind {
 public:
  NoForcedUnwind() = default;
  NoForcedUnwind(const NoForcedUnwind&) = delete;
  NoForcedUnwind& operator=(const NoForcedUnwind&) = delete;
  ~NoForcedUnwind() {
    if (armed_) {
      stay();
    }
  }
  /// What could have ended the thread has returned.
  void disarm() noexcept { armed_ = false; }

 private:
  /// Does not return unless an exception is on its way.
  static void stay() noexcept;
  bool armed_ = true;
};

/// What `call` of CPython's or numpy's interface returns, where it may run other code and so give
/// the GIL up: a thread that Python ends in it sleeps before anything that the caller holds is
/// given back, which it could not be without the GIL. `call` itself holds nothing.
template <class Call>
[[nodiscard]] PyObject* called(const Call& call) {
  NoForcedUnwind stop;
  PyObject* const made = call();
  stop.disarm();
  return made;
}

/// Gives the GIL up for as long as it lives.
class Released {
 public:
  Released() noexcept : state_(PyEval_SaveThread()) {}
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() { take(state_); }

 private:
  static void take(PyThreadState* state) noexcept(false);
  PyThreadState* state_;
};

}  // namespace reprise::python
