#include "actor.hpp"
#include "evaluation.hpp"
#include "parameter_board.hpp"
#include "scoreboard.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace apex {
namespace {

TEST(Exploration, RunsFromEpsilonToItsPowerAsInApex) {
  const Options options;
  EXPECT_FLOAT_EQ(exploration(options, 0, 360), 0.4F);
  EXPECT_FLOAT_EQ(exploration(options, 359, 360), static_cast<float>(std::pow(0.4, 8.0)));
  for (std::size_t i = 1; i < 360; ++i) {
    EXPECT_LT(exploration(options, i, 360), exploration(options, i - 1, 360));
  }
  EXPECT_FLOAT_EQ(exploration(options, 0, 1), static_cast<float>(std::pow(0.4, 8.0)));
}

TEST(FreshSeeds, NeverRepeatNorMeetTheActorsStreams) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t run = 0; run < 10; ++run) {
    for (std::uint64_t actor = 0; actor < 64; ++actor) {
      EXPECT_TRUE(seen.insert(stream_seed(run, actor)).second);
    }
    FreshSeeds seeds(run);
    for (int i = 0; i < 1000; ++i) {
      EXPECT_TRUE(seen.insert(seeds.next()).second);
    }
  }
}

TEST(Evaluation, OfAnUntrainedNetworkIsPoorAndCountsEveryEpisode) {
  ActorNetwork network({LunarLander::kObservations, 8, LunarLander::kActions});
  FreshSeeds seeds(1);
  // All values equal: the first action, no engine, a crash.
  const Score score = evaluate(network, seeds, 10);
  EXPECT_EQ(score.episodes, 10U);
  EXPECT_LT(score.mean, 0.0F);
  EXPECT_GT(score.deviation, 0.0F);
}

TEST(ParameterBoard, GivesACopyOncePerVersion) {
  ParameterBoard board;
  std::vector<float> copy(2);
  std::uint64_t version = 0;
  EXPECT_FALSE(board.fetch(copy, version));
  board.publish(std::vector<float>{1.0F, 2.0F});
  EXPECT_TRUE(board.fetch(copy, version));
  EXPECT_EQ(copy, (std::vector<float>{1.0F, 2.0F}));
  EXPECT_FALSE(board.fetch(copy, version));
  board.publish(std::vector<float>{3.0F, 4.0F});
  board.publish(std::vector<float>{5.0F, 6.0F});
  EXPECT_TRUE(board.fetch(copy, version));
  EXPECT_EQ(copy, (std::vector<float>{5.0F, 6.0F}));
}

TEST(Scoreboard, AveragesTheLastEpisodesOnly) {
  Scoreboard scores(3);
  EXPECT_FALSE(scores.summary().full);
  EXPECT_EQ(scores.summary().mean, 0.0F);
  scores.add(10.0F);
  EXPECT_EQ(scores.summary().mean, 10.0F);
  for (const float episode_return : {1.0F, 2.0F, 3.0F, 4.0F}) {
    scores.add(episode_return);
  }
  EXPECT_TRUE(scores.summary().full);
  EXPECT_EQ(scores.summary().episodes, 5U);
  EXPECT_EQ(scores.summary().mean, 3.0F);
}

}  // namespace
}  // namespace apex
