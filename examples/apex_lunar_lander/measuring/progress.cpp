#include "measuring/progress.hpp"

#include <unistd.h>

#include <cstdio>

namespace apex {
namespace {

/// Seconds between two lines, and over which rates are taken.
constexpr double kTerminalPeriod = 0.25;
constexpr double kPlainPeriod = 1.0;

}  // namespace

Progress::Progress() : terminal_(isatty(STDOUT_FILENO) == 1) {}

Progress::~Progress() {
  if (line_open_) {
    std::fputc('\n', stdout);
    std::fflush(stdout);
  }
}

void Progress::show(const Snapshot& now) {
  if (!begun_) {
    // A run that goes on from a checkpoint has steps and seconds behind it.
    shown_ = now;
    begun_ = true;
  }
  const double elapsed = now.seconds - shown_.seconds;
  if (elapsed < (terminal_ ? kTerminalPeriod : kPlainPeriod)) {
    return;
  }
  const auto rate = [elapsed](std::uint64_t from, std::uint64_t to) {
    return static_cast<double>(to - from) / elapsed;
  };
  std::printf("%s%6.1f s | %7.0f steps/s | %6.0f updates/s | %7zu resident | mean return %7.1f%s",
              terminal_ ? "\r" : "", now.seconds,
              rate(shown_.environment_steps, now.environment_steps),
              rate(shown_.learner_updates, now.learner_updates), now.resident_steps,
              static_cast<double>(now.mean_return), terminal_ ? " " : "\n");
  std::fflush(stdout);
  line_open_ = terminal_;
  shown_ = now;
}

}  // namespace apex
