#include "buffer/writer_slots.hpp"

#include "testing/test.hpp"

namespace reprise::buffer {
namespace {

TEST(WriterSlots, ThreadsNeverShareASlotAndNoStepIsLost) {
  constexpr std::size_t kSlots = 2;
  constexpr std::size_t kThreads = 3;
  constexpr std::size_t kTurns = 3000;
  WriterSlots slots(kSlots);
  // Plain memory, because only the owner of a slot accesses its element.
  std::array<std::size_t, kSlots> owned{};
  std::atomic<std::size_t> took{0};
  std::vector<std::jthread> threads;
  test::start(threads, kThreads, [&] {
    for (std::size_t i = 0; i < kTurns; ++i) {
      const std::optional<std::size_t> slot = slots.take();
      if (!slot) {
        std::this_thread::yield();
        continue;
      }
      ++owned[*slot];
      slots.count_step(*slot);
      took.fetch_add(1);
      slots.give_back(*slot);
    }
  });
  threads.clear();
  EXPECT_EQ(slots.alive(), 0U);
  EXPECT_EQ(slots.committed(), took.load());
  EXPECT_EQ(owned[0] + owned[1], took.load());
}

}  // namespace
}  // namespace reprise::buffer
