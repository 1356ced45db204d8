#pragma once

#include "training.hpp"

namespace apex {

/// Shows how training goes: one line that renews itself on a terminal, a line per second elsewhere.
///
/// Thread safety: one thread at a time.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const Snapshot& now);

 private:
  bool terminal_;
  bool begun_ = false;
  bool line_open_ = false;
  Snapshot shown_;  ///< Rates are those since this one.
};

}  // namespace apex
