#include "agent.hpp"
#include "measuring/evaluation.hpp"
#include "measuring/scoreboard.hpp"
#include "network.hpp"

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
  torch::manual_seed(1);
  Network network(NetworkShape{LunarLander::kObservations, 8, LunarLander::kActions});
  FreshSeeds seeds(1);
  const Score score = evaluate(network, seeds, 10);
  EXPECT_EQ(score.episodes, 10U);
  EXPECT_LT(score.mean, 0.0F);
  EXPECT_GT(score.deviation, 0.0F);
}

TEST(NetworkBoard, GivesACopyOncePerVersion) {
  const NetworkShape shape{.observations = 2, .hidden = 3, .actions = 2};
  NetworkBoard board(shape);
  Network published(shape);
  Network fetched(shape);
  const auto first_weight = [](const Network& network) {
    return network->parameters()[0].data_ptr<float>();
  };
  std::uint64_t version = 0;
  EXPECT_FALSE(board.fetch(fetched, version));
  for (const float weight : {1.0F, 5.0F}) {
    *first_weight(published) = weight - 1.0F;
    board.publish(published);
    *first_weight(published) = weight;
    board.publish(published);
    EXPECT_TRUE(board.fetch(fetched, version));
    EXPECT_EQ(*first_weight(fetched), weight);
    EXPECT_FALSE(board.fetch(fetched, version));
  }
  *first_weight(published) = 9.0F;
  EXPECT_EQ(*first_weight(fetched), 5.0F);
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
