#include "base/event.hpp"

#include "testing/test.hpp"

namespace reprise::base {
namespace {

using namespace std::chrono_literals;

constexpr auto kForever = Clock::time_point::max();

TEST(DeadlineAfter, SaturatesAtTheEndOfTime) {
  EXPECT_EQ(deadline_after(std::chrono::nanoseconds::max()), kForever);
  const auto before = Clock::now();
  const auto deadline = deadline_after(1h);
  EXPECT_GE(deadline, before + 1h);
  EXPECT_LE(deadline, Clock::now() + 1h);
}

TEST(Event, CountsItsRegistrations) {
  Event event;
  EXPECT_EQ(event.waiting(), 0U);
  {
    const Event::Registration first(event);
    const Event::Registration second(event);
    EXPECT_EQ(event.waiting(), 2U);
  }
  EXPECT_EQ(event.waiting(), 0U);
}

TEST(Event, AWaitUntilAPastDeadlineReturnsAtOnce) {
  Event event;
  const Event::Registration registration(event);
  registration.wait(registration.ticket(), Clock::now() - 1s);
  registration.wait(registration.ticket(), Clock::time_point());
}

TEST(Event, AWaitEndsByItselfAtItsDeadline) {
  Event event;
  const Event::Registration registration(event);
  const auto deadline = deadline_after(1ms);
  while (Clock::now() < deadline) {
    registration.wait(registration.ticket(), deadline);
  }
}

TEST(Event, AWakeBetweenTicketAndWaitIsNotLost) {
  Event event;
  const Event::Registration registration(event);
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t ticket = registration.ticket();
    if (i % 2 == 0) {
      event.wake_all();
    } else {
      event.wake_registered();
    }
    EXPECT_NE(registration.ticket(), ticket);
    registration.wait(ticket, kForever);
  }
}

TEST(Event, AWakeWithoutARegisteredThreadChangesNoTicket) {
  Event event;
  std::uint32_t ticket = 0;
  {
    const Event::Registration registration(event);
    ticket = registration.ticket();
  }
  event.wake_registered();
  const Event::Registration registration(event);
  EXPECT_EQ(registration.ticket(), ticket);
}

TEST(Event, OneWakeWakesEveryOlderTicket) {
  constexpr int kSleepers = 5;
  Event event;
  std::atomic<int> asleep{0};
  std::vector<std::jthread> sleepers;
  test::start(sleepers, kSleepers, [&] {
    const Event::Registration registration(event);
    const std::uint32_t ticket = registration.ticket();
    asleep.fetch_add(1);
    while (registration.ticket() == ticket) {
      registration.wait(ticket, kForever);
    }
  });
  while (asleep.load() < kSleepers) {
    std::this_thread::yield();
  }
  event.wake_all();
  sleepers.clear();
  EXPECT_EQ(event.waiting(), 0U);
}

/// Sleeps until `value` is at least `wanted`, in the way of every sleeper in the library: it
/// registers, looks at the value, and only then sleeps.
void sleep_until(Event& event, const std::atomic<std::uint64_t>& value, std::uint64_t wanted) {
  const Event::Registration registration(event);
  for (;;) {
    const std::uint32_t ticket = registration.ticket();
    if (value.load() >= wanted) {
      return;
    }
    registration.wait(ticket, kForever);
  }
}

TEST(Event, NoWakeIsLostBetweenTwoThreadsThatWakeEachOther) {
  const std::uint64_t rounds = test::scaled(10000, 10000);
  Event request_event;
  Event answer_event;
  std::atomic<std::uint64_t> request{0};
  std::atomic<std::uint64_t> answer{0};
  std::jthread other([&] {
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      sleep_until(request_event, request, round);
      answer.store(round);
      answer_event.wake_registered();
    }
  });
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    request.store(round);
    request_event.wake_registered();
    sleep_until(answer_event, answer, round);
  }
  other.join();
  EXPECT_EQ(answer.load(), rounds);
}

TEST(Event, NoWakeIsLostAmongSeveralSleepers) {
  constexpr std::uint64_t kSleepers = 3;
  constexpr std::uint64_t kRounds = 3000;
  Event event;
  Event arrived;
  std::atomic<std::uint64_t> value{0};
  std::atomic<std::uint64_t> arrivals{0};
  std::vector<std::jthread> sleepers;
  test::start(sleepers, kSleepers, [&] {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      sleep_until(event, value, round);
      arrivals.fetch_add(1);
      arrived.wake_registered();
    }
  });
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    value.store(round);
    event.wake_registered();
    sleep_until(arrived, arrivals, round * kSleepers);
  }
  sleepers.clear();
  EXPECT_EQ(arrivals.load(), kRounds * kSleepers);
}

}  // namespace
}  // namespace reprise::base
