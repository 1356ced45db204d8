#include "scale.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>

/// Runs a program's tests. A test that is not over in time ends the program with the test's name,
/// so that a lost wake-up is a failure that says who waits, and not a run that never ends.
///
/// An alarm needs no thread, which a forked child would lack.
namespace reprise::test {
namespace {

/// Below the timeouts in CMakePresets.json.
constexpr std::chrono::seconds kLimit{REPRISE_TEST_LIMIT_SECONDS};

/// Written before an alarm is set: the handler may touch no other memory.
std::string& message() {
  static std::string words;
  return words;
}

void hung(int /*signal*/) {
  static_cast<void>(::write(STDERR_FILENO, message().data(), message().size()));
  std::abort();
}

class HangGuard final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    message() = std::string("hung: ") + test.test_suite_name() + "." + test.name() + "\n";
    ::alarm(static_cast<unsigned>(scaled_limit(kLimit).count()));
  }
  void OnTestEnd(const testing::TestInfo& /*test*/) override { ::alarm(0); }
};

}  // namespace
}  // namespace reprise::test

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  reprise::test::message();
  std::signal(SIGALRM, reprise::test::hung);
  // Google Test owns it.
  testing::UnitTest::GetInstance()->listeners().Append(new reprise::test::HangGuard);
  return RUN_ALL_TESTS();
}
