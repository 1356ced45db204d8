#pragma once

#include "latency.hpp"

#include <cstdint>
#include <string>

namespace stress {

struct Snapshot {
  std::uint64_t appends = 0;
  std::uint64_t batches = 0;
  std::uint64_t resident = 0;
  std::uint64_t violations = 0;
};

/// What goes on, on one line that is written over on a terminal, and else on a line now and then.
/// One thread.
class LiveLine {
 public:
  LiveLine();
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  /// A new stage: counters start from 0 again.
  void begin(const std::string& stage);
  [[nodiscard]] bool due() const;
  void show(const Snapshot& now);

 private:
  void clear();

  const bool terminal_;
  const Clock::time_point start_ = Clock::now();
  std::string stage_;
  Clock::time_point shown_at_ = start_;
  Snapshot shown_;
  bool line_open_ = false;
};

}  // namespace stress
