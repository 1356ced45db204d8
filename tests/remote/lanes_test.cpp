#include <reprise/remote.hpp>

#include "testing/test.hpp"
#include "testing/worlds/world.hpp"

namespace reprise::test {
namespace {

constexpr std::size_t kChunk = 16;

Options options_of(std::size_t capacity, std::size_t max_writers) {
  return SmallOptions{.capacity_steps = capacity,
                      .window = Transitions{.n_step = 3},
                      .max_writers = max_writers,
                      .chunk_steps = kChunk};
}

/// Shards, and `writers` packers, each with a lane per shard and writers for `environments`
/// environments. Steps are numbered in the order of appending.
class Spread {
 public:
  Spread(std::size_t writers, std::size_t environments, std::size_t shards, std::size_t capacity,
         std::size_t longest_run) {
    for (std::size_t s = 0; s < shards; ++s) {
      lines.push_back(
          std::make_unique<NumberedBuffer>(options_of(capacity / shards, writers * environments)));
      servers.push_back(std::make_unique<ReplayShard>(lines.back()->replay, s));
    }
    for (std::size_t w = 0; w < writers; ++w) {
      packers.push_back(std::make_unique<StepPacker>(
          lines[0]->schema, options_of(capacity, environments), 1000 * w,
          PackerLanes{.count = shards, .first = w % shards, .longest_run = longest_run}));
      for (std::size_t e = 0; e < environments; ++e) {
        environments_.push_back(packers.back()->writer());
      }
    }
  }

  /// Appends one step in each environment. The episodes of all environments end at the same time.
  void step(std::size_t episode_steps) {
    for (Writer& writer : environments_) {
      const bool ends = writer.in_episode() && writer.episode_steps() + 1 == episode_steps;
      const End end = ends || episode_steps == 1 ? End::Terminated : End::Continue;
      ASSERT_EQ(lines[0]->append(writer, appended_steps++, end), CommitStatus::Committed);
    }
  }
  void ship() {
    for (const auto& packer : packers) {
      for (std::size_t s = 0; s < servers.size(); ++s) {
        if (!packer->empty(s)) {
          const AppendResult result = servers[s]->append(packer->take(s).bytes());
          ASSERT_EQ(result.status, CommitStatus::Committed);
          restarted += result.restarted;
        }
      }
    }
  }
  [[nodiscard]] std::size_t size() const {
    return std::accumulate(
        lines.begin(), lines.end(), std::size_t{0},
        [](std::size_t sum, const auto& line) { return sum + line->replay.size(); });
  }
  [[nodiscard]] std::uint64_t oldest() const {
    std::uint64_t oldest = appended_steps;
    for (const auto& line : lines) {
      oldest = std::min(oldest, line->numbers().front());
    }
    return oldest;
  }
  [[nodiscard]] std::vector<std::uint64_t> committed() const {
    std::vector<std::uint64_t> steps;
    for (const auto& line : lines) {
      steps.push_back(line->replay.stats().committed_steps);
    }
    return steps;
  }

  std::vector<std::unique_ptr<NumberedBuffer>> lines;
  std::vector<std::unique_ptr<ReplayShard>> servers;
  std::vector<std::unique_ptr<StepPacker>> packers;
  std::uint64_t appended_steps = 0;
  std::size_t restarted = 0;

 private:
  std::vector<Writer> environments_;
};

constexpr std::size_t kEndless = ~std::size_t{0};  ///< The length of an episode that never ends.

/// The numbers of writers, environments per writer, shards, and steps per episode.
class SpreadOf : public testing::TestWithParam<
                     std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>> {};

TEST_P(SpreadOf, EpisodesFillsAllShardsAndKeepsNoOldSteps) {
  const auto [writers, environments, shards, episode_steps] = GetParam();
  constexpr std::size_t kCapacity = 1800;
  const std::size_t longest_run = kCapacity / shards / 16;
  Spread spread(writers, environments, shards, kCapacity, longest_run);
  const std::size_t all_environments = writers * environments;
  constexpr std::size_t kRounds = 10;  // Steps of each environment between two shipments.
  // An environment may append two runs, or an episode if that is shorter, to each other shard
  // before it appends to a shard again.
  const std::size_t under_way =
      all_environments * (kRounds + (shards - 1) * std::min(2 * longest_run, episode_steps));
  const std::size_t max_age = kCapacity + shards * kChunk + under_way;
  for (std::size_t shipments = 0; spread.appended_steps < 3 * kCapacity; ++shipments) {
    for (std::size_t i = 0; i < kRounds; ++i) {
      spread.step(episode_steps);
    }
    spread.ship();
    if (spread.appended_steps > max_age && shipments % 4 == 0) {
      ASSERT_GE(spread.size(), kCapacity - shards * kChunk) << "after " << spread.appended_steps;
      ASSERT_LE(spread.appended_steps - spread.oldest(), max_age)
          << "after " << spread.appended_steps;
    }
  }
  // If each shard gets the same number of environments, no environment has to change its shard.
  const bool cut = environments % shards != 0 && episode_steps > longest_run;
  EXPECT_EQ(spread.restarted != 0, cut) << "episodes stay whole, unless they are too long";
}

INSTANTIATE_TEST_SUITE_P(Writers, SpreadOf,
                         testing::Combine(testing::Values(1U, 2U, 3U, 5U), testing::Values(1U),
                                          testing::Values(1U, 2U, 3U),
                                          testing::Values(std::size_t{1}, std::size_t{20},
                                                          std::size_t{50}, kEndless)));
INSTANTIATE_TEST_SUITE_P(VectorWriters, SpreadOf,
                         testing::Combine(testing::Values(1U, 2U), testing::Values(4U),
                                          testing::Values(2U, 3U),
                                          testing::Values(std::size_t{20}, kEndless)));

TEST(Lanes, EpisodesThatEndTogetherAreSpreadEvenlyOverTheShards) {
  Spread spread(1, 10, 3, 30'000, 1000);
  for (int episode = 0; episode < 10; ++episode) {
    for (int i = 0; i < 50; ++i) {
      spread.step(50);
    }
    spread.ship();
    for (const std::uint64_t steps : spread.committed()) {
      EXPECT_NEAR(static_cast<double>(steps), static_cast<double>(spread.appended_steps) / 3, 50.0);
    }
  }
  EXPECT_EQ(spread.restarted, 0U);
}

TEST(Lanes, AreBalancedByTheStepsThatEpisodesHadAndNotByTheirExpectedLengths) {
  Spread spread(1, 1, 2, 30'000, 1000);
  for (int episode = 0; episode < 40; ++episode) {
    // Lengths alternate, so the packer, which expects the length of earlier episodes, is wrong.
    const std::size_t steps = episode % 2 == 0 ? 100 : 10;
    for (std::size_t i = 0; i < steps; ++i) {
      spread.step(steps);
    }
  }
  spread.ship();
  EXPECT_NEAR(static_cast<double>(spread.committed()[0]), 1100.0, 50.0);
}

TEST(Lanes, AnEpisodeThatIsTooLongGoesOnInAnotherShardAndNoStepIsLostOrDoubled) {
  Spread spread(1, 1, 2, 2000, 100);
  for (int i = 0; i < 450; ++i) {
    spread.step(kEndless);
    // Some shipments are made between the last step of a run and the next.
    if (i % 7 == 0 || i == 200) {
      spread.ship();
    }
  }
  spread.ship();
  EXPECT_EQ(spread.committed(), (std::vector<std::uint64_t>{250, 200}));
  EXPECT_EQ(spread.restarted, 2U)
      << "the episode changes its shard only if the other shard has fewer steps";
  EXPECT_EQ(spread.size(), 448U) << "the last steps of the open episode are no items yet";
  std::vector<std::uint64_t> numbers = spread.lines[0]->numbers();
  std::ranges::copy(spread.lines[1]->numbers(), std::back_inserter(numbers));
  std::ranges::sort(numbers);
  EXPECT_EQ(numbers, number_range(0, 448));
}

TEST(Lanes, AreChangedOnlyWhereASequenceBegins) {
  World world({.states = true});
  Options options = options_of(1000, 1);
  options.chunk_steps = 0;
  options.window = Sequences{.length = 8, .period = 4};
  StepPacker packer(world.schema(), options, 5, {.count = 2, .longest_run = 10});
  ReplayBuffer first(world.schema(), options);
  ReplayBuffer second(world.schema(), options);
  ReplayShard shards[] = {ReplayShard(first), ReplayShard(second)};
  Writer writer = packer.writer();
  std::size_t appended = 0;
  world.append(writer, 60);
  for (std::size_t lane = 0; lane < 2; ++lane) {
    appended += shards[lane].append(packer.take(lane).bytes()).steps;
  }
  EXPECT_EQ(appended, 60U) << "no step is skipped until the next sequence begins";
  EXPECT_EQ(first.stats().committed_steps, 36U);
}

TEST(Lanes, HaveTheirOwnWriterIdsAndCounts) {
  Spread spread(1, 1, 2, 1000, 100);
  spread.step(1);
  spread.step(1);
  spread.step(1);
  StepPacker& packer = *spread.packers[0];
  EXPECT_EQ(packer.steps(), 3U);
  EXPECT_EQ(packer.most_steps(), 2U);
  EXPECT_EQ(packer.steps_in(1), 1U);
  EXPECT_EQ(StepPacker::steps_of(packer.take(1).bytes()), 1U);
  EXPECT_EQ(packer.sequence(1), 1U);
  EXPECT_EQ(packer.sequence(0), 0U);
  EXPECT_TRUE(packer.empty(1));
  EXPECT_FALSE(packer.empty(0));
  EXPECT_TRUE(packer.take(1).empty());
  EXPECT_EQ(packer.steps(), 2U);
  EXPECT_THROW((void)packer.take(2), std::invalid_argument);
  EXPECT_EQ(spread.servers[0]->append(packer.take(0).bytes()).steps, 2U);
  EXPECT_EQ(packer.bytes(), 0U);
  EXPECT_EQ(spread.servers[0]->close_writer(0), 1U);
  spread.step(1);
  EXPECT_EQ(spread.servers[1]->append(packer.take(1).bytes()).steps, 1U);
  EXPECT_EQ(spread.servers[1]->close_writer(1), 1U);
}

TEST(Lanes, RefuseWhatIsNotAllowed) {
  const Schema schema = NumberedBuffer(options_of(64, 1)).schema;
  for (const PackerLanes& lanes : {PackerLanes{.count = 0}, PackerLanes{.count = 2, .first = 2},
                                   PackerLanes{.count = 2, .longest_run = 0}}) {
    EXPECT_THROW(StepPacker(schema, options_of(64, 1), 5, lanes), std::invalid_argument);
  }
}

TEST(Lanes, AnEnvironmentThatStopsLeavesNoOpenChunk) {
  NumberedBuffer shipped(options_of(1000, 2));
  StepPacker packer(shipped.schema, options_of(1000, 2), 5);
  ReplayShard shard(shipped.replay);
  Writer stopping = packer.writer();
  Writer going_on = packer.writer();
  shipped.append(stopping, 0, End::Terminated);
  for (std::uint64_t i = 1; i <= 4 * kChunk + 1; ++i) {
    EXPECT_EQ(shipped.replay.stats().writers, i == 1 ? 0U : 2U) << "before step " << i;
    shipped.append(going_on, i, End::Terminated);
    (void)shard.append(packer.take().bytes());
  }
  EXPECT_EQ(shipped.replay.stats().writers, 1U);
}

TEST(Lanes, BetweenEpisodesTheShardsPlaceOfAWriterIsFreeForOthers) {
  Spread spread(4, 1, 2, 1000, 1000);
  for (std::size_t s = 0; s < 2; ++s) {  // Each shard has room for two of the four writers.
    spread.lines[s] = std::make_unique<NumberedBuffer>(options_of(500, 2));
    spread.servers[s] = std::make_unique<ReplayShard>(spread.lines[s]->replay, s);
  }
  for (int i = 0; i < 200; ++i) {
    spread.step(10);
    spread.ship();
  }
  EXPECT_EQ(spread.appended_steps, 800U);
  const std::vector<std::uint64_t> committed = spread.committed();
  EXPECT_EQ(committed[0] + committed[1], 800U);
  EXPECT_EQ(spread.restarted, 0U);
}

}  // namespace
}  // namespace reprise::test
