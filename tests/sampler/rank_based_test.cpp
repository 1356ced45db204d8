#include "testing/statistics/chi_square.hpp"
#include "testing/statistics/ranks.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

constexpr double kAlpha = 0.7;

Options ranked(std::size_t capacity, std::size_t shards,
               InitialPriority initial = InitialPriority::MaximumInBuffer) {
  return Small{
      .capacity_steps = capacity,
      .selectors = {RankBased{.alpha = 0.7F, .initial = initial, .initial_constant = 3.0F}},
      .max_writers = 8,
      .chunk_steps = capacity < 1000 ? 8U : 256U,
      .shards = shards};
}

/// Appends items 0 to priorities.size() - 1 with a few writers in turn, so that every shard has
/// some.
void fill(Line& line, std::span<const float> priorities) {
  std::vector<Writer> writers;
  for (int i = 0; i < 5; ++i) {
    writers.push_back(line.replay.writer());
  }
  for (std::uint64_t i = 0; i < priorities.size(); ++i) {
    line.append(writers[i % writers.size()], i, End::Terminated, std::span(&priorities[i], 1));
  }
}

std::vector<float> random_priorities(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> priorities(count);
  std::generate(priorities.begin(), priorities.end(),
                [&] { return static_cast<float>(std::exp(8.0 * rng.unit())); });
  return priorities;
}

TEST(RankBased, TheLargestPriorityIsThatOfAnItemThatCanBeDrawn) {
  Line line(Small{.selectors = {RankBased{}}, .max_times_sampled = 1});
  const auto largest = [&] { return line.replay.selector().totals().largest; };
  line.append(0, End::Terminated, std::array{9.0F});
  EXPECT_EQ(largest(), 9.0F);
  ASSERT_TRUE(for_now(line.replay.sampler()).sample(1, kAtOnce));
  EXPECT_EQ(largest(), 0.0F);
  line.append(1, End::Terminated, std::array{2.0F});
  EXPECT_EQ(largest(), 2.0F);
  Line other(Small{.selectors = {RankBased{}}});
  for (const float priority : {9.0F, 1.0F, 2.0F}) {
    other.append(0, End::Terminated, std::span(&priority, 1));
  }
  const SampleOptions without{.draws = Draws::WithoutReplacement};
  ASSERT_TRUE(for_now(other.replay.sampler()).sample(2, without));
  EXPECT_EQ(other.replay.selector().totals().largest, 9.0F) << "it was only hidden for a draw";
}

class RankBasedIn : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Shards, RankBasedIn, testing::Values(1U, 4U));

/// The probability that one call reports for every item, by number. With several times 1 / P
/// stratified draws, none is left out.
std::vector<double> reported(Line& line, const std::map<std::uint64_t, ItemKey>& keys,
                             std::size_t draws) {
  std::map<std::uint32_t, std::uint64_t> numbers;
  for (const auto& [number, key] : keys) {
    numbers[key.slot()] = number;
  }
  std::vector<double> probabilities(keys.rbegin()->first + 1);
  Sampler sampler = line.replay.sampler({.seed = 4});
  const SampleResult batch = sampler.sample(draws, {.gather = false});
  for (std::size_t i = 0; i < draws; ++i) {
    probabilities[numbers.at(batch->keys()[i].slot())] = batch->probabilities()[i];
  }
  return probabilities;
}

TEST_P(RankBasedIn, IsWithinOnePerCentOfTheExactDistributionAtOneHundredThousandItems) {
  const std::size_t items = scaled(100'000, 10'000);
  std::vector<float> priorities = random_priorities(items, 2);
  Line line(ranked(items, GetParam()));
  fill(line, priorities);
  const auto keys = line.keys();
  ASSERT_EQ(keys.size(), items);
  std::map<std::uint32_t, std::uint64_t> numbers;
  for (const auto& [number, key] : keys) {
    numbers[key.slot()] = number;
  }
  Sampler sampler = line.replay.sampler({.seed = 5});
  Rng rng(6);
  std::vector<float> changed(512);
  // Imitates a learner, which changes the first ranks most; some items return to the maximum.
  for (int step = 0; step <= 400; ++step) {
    if (step % 100 == 0) {
      const std::vector<double> now = reported(line, keys, 15 * items);
      ASSERT_NEAR(std::accumulate(now.begin(), now.end(), 0.0), 1.0, 1e-6) << "one was left out";
      EXPECT_LT(total_variation(now, rank_probabilities(priorities, kAlpha)), 0.006)
          << "step " << step;
    }
    const SampleResult batch = sampler.sample(changed.size(), {.gather = false});
    for (std::size_t i = 0; i < changed.size(); ++i) {
      changed[i] = rng.chance(0.05) ? 3000.0F : static_cast<float>(std::exp(8.0 * rng.unit()));
      priorities[numbers.at(batch->keys()[i].slot())] = changed[i];
    }
    line.replay.update_priorities(batch->keys(), changed);
  }
}

TEST_P(RankBasedIn, NewItemsEnterAsTheOptionSays) {
  const auto ratio = [&](InitialPriority initial) {
    Line line(ranked(64, GetParam(), initial));
    line.append(0, 9.0F);
    line.append(1, 2.0F);
    (void)line.replay.size();
    line.append(2);
    const auto probabilities = line.probabilities();
    return probabilities.at(2) / probabilities.at(0);
  };
  EXPECT_NEAR(ratio(InitialPriority::MaximumInBuffer), 1.0, 1e-6);
  EXPECT_NEAR(ratio(InitialPriority::HighestSeen), 1.0, 1e-6);
  EXPECT_NEAR(ratio(InitialPriority::Constant), std::pow(2.0, -kAlpha), 1e-6);
  Line line(ranked(64, GetParam(), InitialPriority::FromCaller));
  expect_refusal<std::invalid_argument>([&] { line.append(0); }, {"priorit"});
}

}  // namespace
}  // namespace reprise::test
