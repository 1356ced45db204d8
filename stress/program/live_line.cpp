#include "program/live_line.hpp"

#include <unistd.h>

#include <cstdio>

namespace stress {
namespace {

constexpr std::chrono::milliseconds kTerminalPeriod{250};
constexpr std::chrono::seconds kPlainPeriod{2};

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

LiveLine::LiveLine() : terminal_(isatty(STDOUT_FILENO) == 1) {}

LiveLine::~LiveLine() {
  clear();
}

void LiveLine::clear() {
  if (line_open_) {
    std::fputs("\r\033[K", stdout);
    std::fflush(stdout);
    line_open_ = false;
  }
}

bool LiveLine::due() const {
  return Clock::now() - shown_at_ >= (terminal_ ? Clock::duration(kTerminalPeriod) : kPlainPeriod);
}

void LiveLine::show(const Snapshot& now) {
  const Clock::time_point time = Clock::now();
  const double elapsed = seconds(time - shown_at_);
  const auto rate = [elapsed](std::uint64_t from, std::uint64_t to) {
    return to > from && elapsed > 0.0 ? static_cast<double>(to - from) / elapsed : 0.0;
  };
  std::printf("%s%7.1f s  %.3g appends/s, %.3g batches/s, %llu resident, %llu violations%s",
              terminal_ ? "\r" : "", seconds(time - start_), rate(shown_.appends, now.appends),
              rate(shown_.batches, now.batches), static_cast<unsigned long long>(now.resident),
              static_cast<unsigned long long>(now.violations), terminal_ ? "\033[K" : "\n");
  std::fflush(stdout);
  line_open_ = terminal_;
  shown_ = now;
  shown_at_ = time;
}

}  // namespace stress
