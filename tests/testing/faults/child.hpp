#pragma once

#include "testing/test.hpp"

#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace reprise::test {

/// Runs `work` in a forked child and expects `work` to return "", which means no complaint. An
/// alarm kills a child that hangs: after half of the time that is left until main.cpp asks whether
/// the test hangs, but at the earliest after 60 s.
template <class Work>
void expect_in_child(Work&& work) {
  constexpr ::time_t kMinSeconds = 60;
  ::itimerval left{};
  ::getitimer(ITIMER_REAL, &left);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::signal(SIGALRM, SIG_DFL);
    ::alarm(static_cast<unsigned>(std::max(kMinSeconds, left.it_value.tv_sec / 2)));
    std::string complaint;
    try {
      complaint = work();
    } catch (const std::exception& error) {
      complaint = std::string("threw: ") + error.what();
    }
    if (!complaint.empty()) {
      std::fprintf(stderr, "child: %s\n", complaint.c_str());
      std::fflush(stderr);
    }
    // Exits without running destructors of the parent's objects.
    ::_exit(complaint.empty() ? 0 : 1);
  }
  // The parent's alarm is off meanwhile, because a parent that waits for its child would look as if
  // it hung. The child has an alarm of its own.
  const unsigned rest = ::alarm(0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ::alarm(rest);
  EXPECT_FALSE(WIFSIGNALED(status)) << "the child hung or died, of signal " << WTERMSIG(status);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "see the child's complaint above";
}

/// Returns "" if `call` throws an Exception whose message names `maker`, this process and "fork";
/// otherwise describes what `call` did.
template <class Exception, class Call>
[[nodiscard]] std::string describe_unless_refused(const char* what, pid_t maker, Call&& call) {
  try {
    call();
  } catch (const Exception& error) {
    const std::string message = error.what();
    for (const std::string& word :
         {std::to_string(maker), std::to_string(::getpid()), std::string("fork")}) {
      if (message.find(word) == std::string::npos) {
        return std::string(what) + " does not say \"" + word + "\": " + message + "\n";
      }
    }
    return {};
  } catch (const std::exception& error) {
    return std::string(what) + " threw something else: " + error.what() + "\n";
  }
  return std::string(what) + " was not refused\n";
}

}  // namespace reprise::test
