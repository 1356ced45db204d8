#include "released.hpp"

#include <unistd.h>

#include <exception>

namespace reprise::python {

void NoForcedUnwind::stay() noexcept {
  // A forced unwind is no exception of C++.
  if (std::uncaught_exceptions() != 0) {
    return;
  }
  for (;;) {
    ::pause();
  }
}

void Released::take(PyThreadState* state) noexcept(false) {
  NoForcedUnwind stop;
  PyEval_RestoreThread(state);
  stop.disarm();
}

}  // namespace reprise::python
