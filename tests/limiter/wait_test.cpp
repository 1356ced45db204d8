#include "limiter/wait.hpp"

#include "testing/test.hpp"

namespace reprise::limiter {
namespace {

using namespace std::chrono_literals;

TEST(WaitMeter, TellsHowLongTheLongestPresentWaitHasLasted) {
  WaitMeter meter;
  const base::Clock::time_point now = base::Clock::now();
  meter.begin(now - 1h);
  meter.begin(now);
  EXPECT_EQ(meter.stats().waiting_now, 2U);
  EXPECT_GE(meter.stats().waiting_for, 1h);
  meter.end(2h, std::nullopt);
  meter.end(1h, WaitEnd::TimedOut);
  const WaitStats stats = meter.stats();
  EXPECT_EQ(stats.waiting_now, 0U);
  EXPECT_EQ(stats.waiting_for, 0ns);
  EXPECT_EQ(stats.timeouts, 1U);
  EXPECT_EQ(stats.total, 3h);
  EXPECT_EQ(stats.longest, 2h);
}

TEST(Wait, AllWaitsOfACallTogetherEndAtItsTimeout) {
  const std::stop_token never;
  WaitTerms terms(/*life=*/nullptr, 20ms, never, /*hook=*/nullptr);
  {
    Wait first(terms, /*meter=*/nullptr, /*event=*/nullptr);
    while (!first.over()) {
      std::this_thread::yield();
    }
  }
  Wait second(terms, /*meter=*/nullptr, /*event=*/nullptr);
  EXPECT_EQ(second.over(), WaitEnd::TimedOut);
}

TEST(Wait, IsNotCountedAsTimedOutIfItsCallSucceedsAfterAll) {
  const std::stop_token never;
  WaitTerms terms(/*life=*/nullptr, 0ns, never, /*hook=*/nullptr);
  WaitMeter meter;
  {
    Wait wait(terms, &meter, nullptr);
    EXPECT_EQ(wait.over(), WaitEnd::TimedOut);
    wait.clear_end();
  }
  EXPECT_EQ(meter.stats().waits, 1U);
  EXPECT_EQ(meter.stats().timeouts, 0U);
}

}  // namespace
}  // namespace reprise::limiter
