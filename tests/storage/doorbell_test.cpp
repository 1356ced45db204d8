#include "storage/doorbell.hpp"

#include "hooked_sync.hpp"
#include "testing/test.hpp"

namespace reprise::storage {
namespace {

template <class Sync>
struct Doorbells {
  explicit Doorbells(std::size_t chunks) : bells(chunks) {}

  bool ring(std::uint32_t chunk, std::uint32_t value = kRung) {
    return list.ring(
        chunk, value, [this](std::uint32_t c) -> auto& { return bells[c]; });
  }
  /// Takes the whole list. It answers no bell, because the link of an answered bell may change.
  std::vector<std::uint32_t> take() {
    std::vector<std::uint32_t> chunks;
    for (std::uint32_t c = list.take_all(); c != kNil; c = bells[c].next.get()) {
      chunks.push_back(c);
    }
    return chunks;
  }

  std::vector<Bell<Sync>> bells;
  DoorbellList<Sync> list;
};

using Bells = Doorbells<base::StdSync>;
using HookedBells = Doorbells<HookedSync>;
using Chunks = std::vector<std::uint32_t>;

TEST(Doorbell, ARingThatIsOvertakenByAnotherLosesNeither) {
  HookedBells bells(3);
  bells.ring(0);
  HookedSync::before_next(HookedSync::Access::CompareExchange, [&] { EXPECT_TRUE(bells.ring(1)); });
  EXPECT_TRUE(bells.ring(2));
  EXPECT_EQ(bells.take(), (Chunks{2, 1, 0}));
}

TEST(Doorbell, ARingCoalescedJustBeforeTheBellIsClearedIsInTheAnswer) {
  HookedBells bells(1);
  publish(bells.bells[0], 1);
  bells.ring(0);
  bells.take();
  HookedSync::before_next(HookedSync::Access::Exchange, [&] {
    publish(bells.bells[0], 2);
    EXPECT_FALSE(bells.ring(0, kRung | kClosed));
  });
  const Answer news = answer(bells.bells[0]);
  EXPECT_FALSE(HookedSync::pending(HookedSync::Access::Exchange));
  EXPECT_EQ(news.published, 2U) << "nobody rings for this step again";
  EXPECT_TRUE(news.closed);
}

TEST(Doorbell, ARingJustAfterTheBellIsClearedIsInTheListAgain) {
  HookedBells bells(1);
  bells.ring(0);
  bells.take();
  HookedSync::before_next(HookedSync::Access::Load, [&] {
    publish(bells.bells[0], 2);
    EXPECT_TRUE(bells.ring(0, kRung | kClosed));
  });
  const Answer news = answer(bells.bells[0]);
  EXPECT_FALSE(HookedSync::pending(HookedSync::Access::Load));
  EXPECT_FALSE(news.closed) << "only the exchange that takes the closing bell may close";
  EXPECT_EQ(bells.take(), Chunks{0});
  const Answer later = answer(bells.bells[0]);
  EXPECT_EQ(later.published, 2U);
  EXPECT_TRUE(later.closed);
}

TEST(Doorbell, NoRowAndNoClosingIsLostBetweenWritersAndTheTaker) {
  constexpr std::uint32_t kChunks = 4;
  constexpr std::uint32_t kRows = 30000;
  Bells bells(kChunks);
  // The rows are plain memory, so that only a chunk's bell makes them visible to the reader.
  std::array<std::vector<std::uint32_t>, kChunks> rows;
  rows.fill(std::vector<std::uint32_t>(kRows));
  std::vector<std::jthread> writers;
  for (const std::uint32_t first : {0U, 2U}) {
    writers.emplace_back([&, first] {
      for (std::uint32_t row = 0; row < kRows; ++row) {
        for (const std::uint32_t chunk : {first, first + 1}) {
          rows[chunk][row] = row ^ chunk;
          publish(bells.bells[chunk], row + 1);
          bells.ring(chunk, row + 1 == kRows ? kRung | kClosed : kRung);
        }
      }
    });
  }
  std::array<std::uint32_t, kChunks> seen{};
  std::size_t closed = 0;
  while (closed < kChunks) {
    for (const std::uint32_t chunk : bells.take()) {
      const Answer news = answer(bells.bells[chunk]);
      ASSERT_GE(news.published, seen[chunk]);
      for (; seen[chunk] < news.published; ++seen[chunk]) {
        ASSERT_EQ(rows[chunk][seen[chunk]], seen[chunk] ^ chunk);
      }
      closed += news.closed ? 1 : 0;
      ASSERT_TRUE(!news.closed || seen[chunk] == kRows);
    }
  }
  writers.clear();
  EXPECT_EQ(bells.take(), Chunks{}) << "a closing ring is a chunk's last";
}

}  // namespace
}  // namespace reprise::storage
