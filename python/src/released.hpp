#pragma once

#include <pybind11/pybind11.h>

namespace reprise::python {

/// Gives the GIL up for as long as it lives. If Python ends the thread when it takes the GIL back,
/// the thread sleeps: see forced_unwind.cpp.
class Released {
 public:
  Released() noexcept : state_(PyEval_SaveThread()) {}
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() { PyEval_RestoreThread(state_); }

 private:
  PyThreadState* state_;
};

}  // namespace reprise::python
