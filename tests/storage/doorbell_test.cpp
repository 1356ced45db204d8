#include "storage/doorbell.hpp"

#include "testing/test.hpp"

namespace reprise::storage {
namespace {

using Chunks = std::vector<std::uint32_t>;

struct Bells {
  explicit Bells(std::size_t chunks) : bells(chunks) {}

  void ring(std::uint32_t chunk, std::uint32_t value) {
    list.ring(
        chunk, value, [this](std::uint32_t c) -> auto& { return bells[c]; });
  }
  /// Takes the whole list; it reads each link before the bell is answered.
  Chunks take() {
    Chunks chunks;
    for (std::uint32_t c = list.take_all(); c != kNil; c = bells[c].next.get()) {
      chunks.push_back(c);
    }
    return chunks;
  }

  std::vector<Bell<base::StdSync>> bells;
  DoorbellList<base::StdSync> list;
};

TEST(Doorbell, NoRowAndNoClosingIsLostBetweenWritersAndTheTaker) {
  constexpr std::uint32_t kChunks = 4;
  constexpr std::uint32_t kRows = 30000;
  Bells bells(kChunks);
  // Plain memory, so that only its bell makes a row visible.
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
