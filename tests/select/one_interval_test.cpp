#include "select/one_interval.hpp"

#include "testing/test.hpp"

namespace reprise::select {
namespace {

TEST(OneIntervalEach, HoldsIfALeafComesAgainAtOnce) {
  EXPECT_TRUE(equal_leaves_are_adjacent({}));
  EXPECT_TRUE(equal_leaves_are_adjacent(std::vector{3U}));
  EXPECT_TRUE(equal_leaves_are_adjacent(std::vector{3U, 3U, 3U, 1U, 7U, 7U}));
  EXPECT_FALSE(equal_leaves_are_adjacent(std::vector{3U, 1U, 3U}));
  EXPECT_FALSE(equal_leaves_are_adjacent(std::vector{3U, 3U, 1U, 7U, 1U}));
}

TEST(OneIntervalEach, FindsTwoIntervalsAmongManyDraws) {
  for (const std::size_t draws : {200U, 256U, 1000U, 100'000U}) {
    std::vector<std::uint32_t> leaves(draws);
    for (std::size_t i = 0; i < draws; ++i) {
      leaves[i] = static_cast<std::uint32_t>(i * 20 / draws % 10);
    }
    EXPECT_FALSE(equal_leaves_are_adjacent(leaves)) << draws;
    std::sort(leaves.begin(), leaves.end());
    EXPECT_TRUE(equal_leaves_are_adjacent(leaves)) << draws;
  }
}

}  // namespace
}  // namespace reprise::select
