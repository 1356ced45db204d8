#include "storage/pin_word.hpp"

#include "testing/test.hpp"

#include <barrier>

namespace reprise::storage {
namespace {

using Tested = PinWord<base::StdSync>;

TEST(PinWord, PinsMayBeGivenBackUnderTheLockOrWithoutIt) {
  Tested word;
  for (int i = 0; i < 4; ++i) {
    word.pin();
  }
  EXPECT_FALSE(word.unpin_locked());
  EXPECT_FALSE(word.unpin());
  EXPECT_FALSE(word.retire());
  EXPECT_FALSE(word.unpin_locked());
  EXPECT_TRUE(word.unpin_locked());
}

TEST(PinWord, RetiringFreesIfAllPinsWereGivenBackUnderTheLock) {
  Tested word;
  word.pin();
  word.pin();
  EXPECT_FALSE(word.unpin_locked());
  EXPECT_FALSE(word.unpin_locked());
  EXPECT_TRUE(word.retire());
}

TEST(PinWord, ExactlyOneOfRetirerAndReadersFreesAndAfterAllReads) {
  constexpr int kReaders = 3;
  constexpr int kRounds = 3000;
  Tested word;
  // The chunk is plain memory, so that only the word orders reads before reuse.
  std::array<std::uint64_t, 8> chunk{};
  std::atomic<int> freers{0};
  int rounds_freed_wrongly = 0;
  std::barrier gate(kReaders + 1);
  const auto reuse = [&](std::uint64_t round) {
    freers.fetch_add(1, std::memory_order_relaxed);
    chunk.fill(round + 1);
  };
  std::vector<std::jthread> readers;
  test::start(readers, kReaders, [&] {
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      gate.arrive_and_wait();
      for (const std::uint64_t value : chunk) {
        EXPECT_EQ(value, round);
      }
      if (word.unpin()) {
        reuse(round);
      }
      gate.arrive_and_wait();
    }
  });
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    for (int r = 0; r < kReaders; ++r) {
      word.pin();
    }
    gate.arrive_and_wait();
    if (word.retire()) {
      reuse(round);
    }
    gate.arrive_and_wait();
    rounds_freed_wrongly += freers.exchange(0, std::memory_order_relaxed) == 1 ? 0 : 1;
    word.reset();
  }
  EXPECT_EQ(rounds_freed_wrongly, 0);
}

}  // namespace
}  // namespace reprise::storage
