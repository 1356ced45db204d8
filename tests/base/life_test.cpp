#include "base/life.hpp"

#include "testing/faults/child.hpp"
#include "testing/test.hpp"

namespace reprise::base {
namespace {

TEST(Life, CloseWakesWhoSleepsOnARegisteredEvent) {
  Life life;
  Event events[2];
  const Life::WokenByClose first(life, events[0]);
  const Life::WokenByClose second(life, events[1]);
  std::jthread sleepers[2];
  for (int i = 0; i < 2; ++i) {
    sleepers[i] = std::jthread([&, i] {
      const Event::Registration registration(events[i]);
      for (std::uint32_t ticket = registration.ticket(); !life.closed();
           ticket = registration.ticket()) {
        registration.wait(ticket, Clock::time_point::max());
      }
    });
  }
  for (Event& event : events) {
    while (event.waiting() == 0) {
      std::this_thread::yield();
    }
  }
  EXPECT_FALSE(life.closed());
  life.close();
}

TEST(Life, CloseWakesNobodyOnAnEventThatIsRegisteredNoMore) {
  Life life;
  Event gone;
  Event there;
  const Life::WokenByClose wakes(life, there);
  { const Life::WokenByClose earlier(life, gone); }
  const Event::Registration of_gone(gone);
  const Event::Registration of_there(there);
  const std::uint32_t tickets[] = {of_gone.ticket(), of_there.ticket()};
  life.close();
  EXPECT_EQ(of_gone.ticket(), tickets[0]);
  EXPECT_NE(of_there.ticket(), tickets[1]);
}

TEST(Life, CloseWakesTheOthersWhicheverEventIsTakenOut) {
  for (std::size_t out = 0; out < 3; ++out) {
    Life life;
    Event events[3];
    std::optional<Life::WokenByClose> woken[3];
    for (std::size_t i = 0; i < 3; ++i) {
      woken[i].emplace(life, events[i]);
    }
    woken[out].reset();
    life.close();
    for (std::size_t i = 0; i < 3; ++i) {
      const Event::Registration registration(events[i]);
      EXPECT_EQ(registration.ticket(), i == out ? 0U : 1U) << i << " of those without " << out;
    }
  }
}

TEST(Life, OfAForkInTheMiddleOfARegistrationHasNothingToDestroy) {
  // Life must own no memory: a fork in the middle of an allocation would leave it half done in the
  // child.
  EXPECT_TRUE(std::is_trivially_destructible_v<Life>);
  EXPECT_TRUE((std::is_nothrow_constructible_v<Life::WokenByClose, Life&, Event&>));
}

#if defined(__unix__)
TEST(Life, OfAnotherProcessIsRefusedInAChildAndInItsChildren) {
  const Life of_parent;
  EXPECT_FALSE(of_parent.forked());
  EXPECT_NO_THROW(of_parent.check_not_forked());
  const pid_t parent = ::getpid();
  const auto refused = [](const Life& life, pid_t maker) {
    return test::describe_unless_refused<std::logic_error>("check", maker,
                                                           [&] { life.check_not_forked(); });
  };
  // The second child of the same parent has to be refused like the first.
  for (int i = 0; i < 2; ++i) {
    test::expect_in_child([&] {
      std::string complaints = refused(of_parent, parent);
      const Life of_child;
      of_child.check_not_forked();
      const pid_t child = ::getpid();
      test::expect_in_child([&] { return refused(of_parent, parent) + refused(of_child, child); });
      of_child.check_not_forked();
      return complaints + (testing::Test::HasFailure() ? "its child was not refused" : "");
    });
    EXPECT_NO_THROW(of_parent.check_not_forked());
  }
}

TEST(Life, ClosedInAChildLocksNothingAndLeavesTheParentOpen) {
  Life life;
  Event event;
  test::expect_in_child([&]() -> std::string {
    life.close();
    return life.closed() ? "closed, which it cannot be in a child" : "";
  });
  EXPECT_FALSE(life.closed());
}
#endif

}  // namespace
}  // namespace reprise::base
