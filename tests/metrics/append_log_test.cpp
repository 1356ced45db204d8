#include "metrics/append_log.hpp"

#include "testing/test.hpp"

namespace reprise::metrics {
namespace {

TEST(AppendLog, CountsTheStepsAppendedSinceAStepOverSeveralEpisodes) {
  AppendLog log(10'000);
  std::mt19937 random(1);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> noted;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> writers = {{100, 0}, {200, 0}, {300, 0}};
  for (int i = 0; i < 3'000; ++i) {
    auto& [episode, position] = writers[random() % writers.size()];
    log.note(episode, position);
    noted.emplace_back(episode, position);
    ++position;
    if (random() % 100 == 0) {
      ++episode;
      position = 0;
    }
  }
  for (std::size_t i = 0; i < noted.size(); ++i) {
    ASSERT_EQ(log.age(noted[i].first, noted[i].second), noted.size() - 1 - i) << "step " << i;
  }
  EXPECT_FALSE(log.age(99, 0));
  EXPECT_FALSE(log.age(writers[0].first, writers[0].second));
}

TEST(AppendLog, ForgetsTheOldestStepsOfAnEndlessEpisodeToo) {
  AppendLog log(1'000);
  for (std::uint64_t position = 0; position < 100'000; ++position) {
    log.note(7, position);
  }
  EXPECT_EQ(log.age(7, 99'999), 0U);
  EXPECT_EQ(log.age(7, 99'100), 899U);
  EXPECT_FALSE(log.age(7, 98'900));
  EXPECT_FALSE(log.age(7, 0));
}

TEST(AppendLog, ForgetsTheOldestOfManyShortEpisodes) {
  AppendLog log(1'000);
  for (std::uint64_t episode = 0; episode < 50'000; ++episode) {
    log.note(episode, 0);
  }
  EXPECT_EQ(log.age(49'001, 0), 998U);
  EXPECT_FALSE(log.age(48'999, 0));
}

TEST(AppendLog, KeepsTheLastStepsOfAWriterThatIsSlowerThanOthers) {
  AppendLog log(200);
  std::uint64_t fast = 0;
  for (std::uint64_t slow = 0; slow < 50; ++slow) {
    log.note(1, slow);
    for (int i = 0; i < 20; ++i, ++fast) {
      log.note(2 + fast / 64, fast % 64);
    }
    for (std::uint64_t back = 0; back < std::min<std::uint64_t>(slow + 1, 4); ++back) {
      ASSERT_EQ(log.age(1, slow - back), 20 + 21 * back) << "step " << slow;
    }
  }
}

TEST(AppendLog, KnowsNoStepsThatItWasNotTold) {
  AppendLog log(1'000);
  log.note(1, 3);
  log.note(1, 4);
  log.note(1, 10);
  EXPECT_EQ(log.age(1, 10), 0U);
  for (const std::uint64_t position : {0U, 2U, 5U, 9U, 11U}) {
    EXPECT_FALSE(log.age(1, position)) << position;
  }
}

TEST(AppendLog, CountsTowardsItsSizeOnlyTheStepsThatItKeeps) {
  AppendLog log(100);
  for (std::uint64_t episode = 0; episode < 50; ++episode) {
    for (std::uint64_t position = 0; position < 64; position += 2) {
      // Each gap before a position makes the log forget the episode's earlier steps.
      log.note(episode, position);
    }
  }
  EXPECT_EQ(log.age(0, 62), 49U * 32U);
}

}  // namespace
}  // namespace reprise::metrics
