#include "base/life.hpp"

#include "testing/faults/child.hpp"
#include "testing/test.hpp"

namespace reprise::base {
namespace {

TEST(Life, CloseWakesThreadsThatSleepOnARegisteredEvent) {
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

TEST(Life, CloseDoesNotWakeAnEventThatIsNoLongerRegistered) {
  Life life;
  Event removed;
  Event kept;
  const Life::WokenByClose wakes_kept(life, kept);
  { const Life::WokenByClose wakes_removed(life, removed); }
  const Event::Registration in_removed(removed);
  const Event::Registration in_kept(kept);
  const std::uint32_t tickets[] = {in_removed.ticket(), in_kept.ticket()};
  life.close();
  EXPECT_EQ(in_removed.ticket(), tickets[0]);
  EXPECT_NE(in_kept.ticket(), tickets[1]);
}

TEST(Life, CloseWakesTheOtherEventsWhicheverIsRemoved) {
  for (std::size_t removed = 0; removed < 3; ++removed) {
    Life life;
    Event events[3];
    std::optional<Life::WokenByClose> woken[3];
    for (std::size_t i = 0; i < 3; ++i) {
      woken[i].emplace(life, events[i]);
    }
    woken[removed].reset();
    life.close();
    for (std::size_t i = 0; i < 3; ++i) {
      const Event::Registration registration(events[i]);
      EXPECT_EQ(registration.ticket(), i == removed ? 0U : 1U) << i << " without " << removed;
    }
  }
}

TEST(Life, OwnsNoMemoryThatAForkCouldLeaveHalfAllocated) {
  // A fork while another thread allocates leaves the allocation half done in the child.
  EXPECT_TRUE(std::is_trivially_destructible_v<Life>);
  EXPECT_TRUE((std::is_nothrow_constructible_v<Life::WokenByClose, Life&, Event&>));
}

#if defined(__unix__)
TEST(Life, OfAProcessIsRefusedInItsChildAndInTheChildsChild) {
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

TEST(Life, ACloseInAChildDoesNothing) {
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
