#include "buffer/writer_slots.hpp"

#include "testing/test.hpp"

namespace reprise::buffer {
namespace {

TEST(WriterSlots, ThreadsNeverShareASlotAndNoStepIsLost) {
  constexpr std::size_t kSlots = 2;
  constexpr std::size_t kThreads = 3;
  constexpr std::size_t kRounds = 3000;
  WriterSlots slots(kSlots);
  // Not atomic: ThreadSanitizer reports two threads that have the same slot.
  std::array<std::size_t, kSlots> times_taken{};
  std::atomic<std::size_t> all_taken{0};
  std::vector<std::jthread> threads;
  test::start(threads, kThreads, [&] {
    for (std::size_t i = 0; i < kRounds; ++i) {
      const std::optional<std::size_t> slot = slots.take();
      if (!slot) {
        std::this_thread::yield();
        continue;
      }
      ++times_taken[*slot];
      slots.count_step(*slot);
      all_taken.fetch_add(1);
      slots.give_back(*slot);
    }
  });
  threads.clear();
  EXPECT_EQ(slots.alive(), 0U);
  EXPECT_EQ(slots.committed(), all_taken.load());
  EXPECT_EQ(times_taken[0] + times_taken[1], all_taken.load());
}

}  // namespace
}  // namespace reprise::buffer
