#include "explore.hpp"
#include "sleeper.hpp"

#include <cstdint>

// Flags and counts that carry data. Their classes are not templates, so this file repeats their few
// operations, with the same memory orders. Names like D1 are those of docs/memory_ordering.md.

namespace reprise::model {
namespace {

using base::Order;

/// C1, E2: BufferCore::close sets a flag as buffer::Life does, while other threads wake the same
/// event.
struct Close : Test<Close, 3> {
  RelacySync::Atomic<bool> closed{false};
  Plain<int> before_close{0};
  Sleeper event;

  void thread(unsigned index) {
    if (index == 0) {
      before_close.set(1);
      const auto set_closed = [&] { closed.store(true, Order::Release); };
      if (broken(Rule::FlagBeforeWake)) {
        event.wake_all();
        set_closed();
      } else {
        set_closed();
        event.wake_all();
      }
    } else if (index == 1) {
      event.wake_registered();
    } else {
      event.wait_unless([&] {
        const bool seen = closed.load(Order::Acquire);
        expect(!seen || before_close.get() == 1, "what came before close is seen");
        return seen;
      });
    }
  }
  void after() { event.expect_awake(); }
};

/// A queue for one producer and one consumer with the release and acquire of Boost's queue.
struct ForeignQueue {
  RelacySync::Atomic<std::uint32_t> pushed{0};
  Plain<int> slot{0};
  bool popped = false;

  void push() {
    slot.set(1);
    pushed.store(1, Order::Release);
  }
  bool pop() {
    if (!popped && pushed.load(Order::Acquire) != 0) {
      expect(slot.get() == 1, "what was pushed is whole");
      popped = true;
    }
    return popped;
  }
};

/// E1: the Prefetcher pushes a batch while `next` goes to sleep.
struct Prefetch : Test<Prefetch, 2>, ForeignQueue {
  Sleeper ready_event;

  void thread(unsigned index) {
    if (index == 0) {
      ready_event.progress_then_wake([&] { push(); },
                                     [&] { ready_event.wake_registered_after_release(); });
    } else {
      ready_event.wait_unless([&] { return pop(); });
    }
  }
  void after() { ready_event.expect_awake(); }
};

/// P1: Prefetcher::run ends after a push. `next` may return Closed only once the queue is empty.
struct PrefetchEnds : Test<PrefetchEnds, 2>, ForeignQueue {
  RelacySync::Atomic<std::uint32_t> ended{0};

  void thread(unsigned index) {
    if (index == 0) {
      push();
      ended.store(1, Order::Release);
    } else if (broken(Rule::EndLookedAtFirst)) {
      const bool has_batch = pop();
      const bool has_ended = ended.load(Order::Acquire) != 0;
      expect(has_batch || !has_ended, "no batch is left behind");
    } else {
      const bool has_ended = ended.load(Order::Acquire) != 0;
      const bool has_batch = pop();
      expect(has_batch || !has_ended, "no batch is left behind");
    }
  }
};

/// D1: WriterCore::end_truncated drops steps while BufferCore::stats reads the counts.
struct DroppedSteps : Test<DroppedSteps, 2> {
  RelacySync::Atomic<std::uint64_t> committed{0};
  RelacySync::Atomic<std::uint64_t> dropped{0};

  void thread(unsigned index) {
    if (index == 0) {
      for (int i = 0; i < 2; ++i) {
        committed.store(committed.load(Order::Relaxed) + 1, Order::Relaxed);
        dropped.fetch_add(1, Order::Release);
      }
    } else {
      const std::uint64_t lost = dropped.load(Order::Acquire);
      expect(committed.load(Order::Relaxed) >= lost, "dropped steps were committed");
    }
  }
};

}  // namespace

void add_flags(Scenarios& scenarios) {
  scenarios.push_back(small<Close>("flags", "close wakes a sleeper among other wakes"));
  scenarios.push_back(small<Prefetch>("flags", "a prefetched batch wakes its consumer"));
  scenarios.push_back(small<PrefetchEnds>("flags", "prefetching ends after a batch"));
  scenarios.push_back(small<DroppedSteps>("flags", "dropped steps were committed"));
}

}  // namespace reprise::model
