#include "scale.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string>

/// Runs a program's tests. If a test hangs, the program ends and names the test, so that a lost
/// wake-up is a failure and not a run that never ends. Beyond a time limit, a test counts as
/// hanging if it sleeps, or if it has used more processor time than the limit; beyond four limits
/// each test counts as hanging. So on a busy machine a test with little processor time may go on.
///
/// The guard uses an alarm, not a thread, because a forked child would lack the thread.
namespace reprise::test {
namespace {

/// A fifth of the timeouts in CMakePresets.json.
constexpr std::chrono::seconds kLimit{REPRISE_TEST_LIMIT_SECONDS};
/// Seconds from one look at a test beyond its limit to the next.
constexpr std::chrono::seconds kCheckInterval{10};
/// How many limits after the first one a test may take. Ends threads that poll for ever.
constexpr double kMaxExtraLimits = 3.0;
/// A process sleeps if it uses fewer processor seconds than this between two looks. They are not 0,
/// because a wait may wake every 50 ms to look.
constexpr double kAsleep = 0.05;

/// Seconds of processor time that the process has used.
double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The test that runs. Written before an alarm is set, because a signal handler must not allocate.
struct Running {
  std::string message;
  double limit = 0.0;
  double begin = 0.0;         ///< Processor time at the beginning.
  double looks = 0.0;         ///< Number of looks beyond the limit.
  double seen = -1.0;         ///< Processor time at the last look; negative before the first.
  long context_switches = 0;  ///< Involuntary context switches until the last look.
};
Running& running() {
  static Running test;
  return test;
}

void check_for_hang(int /*signal*/) {
  Running& test = running();
  const double now = processor_seconds();
  // A thread that yields or is preempted is not asleep, even if it gets hardly any processor time.
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const bool asleep =
      test.seen >= 0.0 && now - test.seen < kAsleep && usage.ru_nivcsw == test.context_switches;
  const double late = ++test.looks * static_cast<double>(kCheckInterval.count());
  if (!asleep && now - test.begin < test.limit && late < kMaxExtraLimits * test.limit) {
    test.seen = now;
    test.context_switches = usage.ru_nivcsw;
    ::alarm(static_cast<unsigned>(kCheckInterval.count()));
    return;
  }
  (void)::write(STDERR_FILENO, test.message.data(), test.message.size());
  std::abort();
}

class HangGuard final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    const std::chrono::seconds limit = scaled_limit(kLimit);
    running() = {std::string("hung: ") + test.test_suite_name() + "." + test.name() + "\n",
                 static_cast<double>(limit.count()),
                 processor_seconds(),
                 0.0,
                 -1.0,
                 0};
    ::alarm(static_cast<unsigned>(limit.count()));
  }
  void OnTestEnd(const testing::TestInfo& /*test*/) override { ::alarm(0); }
};

}  // namespace
}  // namespace reprise::test

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  reprise::test::running();
  std::signal(SIGALRM, reprise::test::check_for_hang);
  // Google Test owns the listener.
  testing::UnitTest::GetInstance()->listeners().Append(new reprise::test::HangGuard);
  return RUN_ALL_TESTS();
}
