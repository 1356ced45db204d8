#pragma once

#include <chrono>
#include <cstdint>

namespace stress {

struct Snapshot {
  std::uint64_t appends = 0;
  std::uint64_t batches = 0;
  std::uint64_t resident = 0;
  std::uint64_t violations = 0;
};

/// Shows the state of the run on one line, which is rewritten on a terminal and printed from time
/// to time elsewhere. One thread.
class LiveLine {
 public:
  LiveLine();
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  [[nodiscard]] bool due() const;
  void show(const Snapshot& now);

 private:
  using Clock = std::chrono::steady_clock;

  void clear();

  const bool terminal_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_at_ = start_;
  Snapshot shown_;
  bool line_open_ = false;
};

}  // namespace stress
