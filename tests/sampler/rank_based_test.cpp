#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"
#include "testing/fixtures/refusal.hpp"
#include "testing/fixtures/rng.hpp"
#include "testing/fixtures/threads.hpp"
#include "testing/program/scale.hpp"
#include "testing/statistics/chi_square.hpp"
#include "testing/statistics/ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <thread>
#include <vector>

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

/// Appends items 0 to priorities.size() - 1, from a few writers in turn, so that every shard has
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

class RankBasedIn : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Shards, RankBasedIn, testing::Values(1U, 4U));

/// What one call reports for every item, by number. Stratified draws of several times 1 / P leave
/// out nobody.
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
  // A learner's steady state, in which the first ranks change most; some return to the maximum.
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

TEST_P(RankBasedIn, ReportsTheProbabilitiesThatItDrawsWith) {
  constexpr std::size_t kItems = 3000;  // Most buckets hold several ranks.
  Line line(ranked(kItems, GetParam()));
  fill(line, random_priorities(kItems, 3));
  const std::vector<double> probabilities = reported(line, line.keys(), 64 * kItems);
  std::vector<std::uint64_t> counts(kItems);
  Sampler sampler = line.replay.sampler({.seed = 6, .parallel_gather_bytes = kGatherAlone});
  for (std::size_t drawn = 0; drawn < scaled(3'000'000, 300'000); drawn += 10'000) {
    const SampleResult batch = sampler.sample(10'000, {.draws = Draws::Independent});
    for (std::size_t i = 0; i < batch->size(); ++i) {
      ++counts[batch->now(line.id)[i]];
    }
  }
  EXPECT_LT(std::abs(chi_square_z(counts, probabilities)), 5.0);
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

TEST_P(RankBasedIn, SequencedCallsGiveTheSameBatches) {
  const auto history = [&] {
    Line line(ranked(500, GetParam()));
    Sampler sampler = line.replay.sampler({.seed = 12});
    Rng rng(13);
    std::vector<std::pair<std::uint64_t, double>> drawn;
    std::vector<float> priorities(32);
    for (std::uint64_t step = 0; step < 3000; ++step) {
      line.append(step);
      if (step % 5 != 4) {
        continue;
      }
      const SampleResult batch = sampler.sample(priorities.size());
      for (std::size_t i = 0; i < batch->size(); ++i) {
        drawn.emplace_back(batch->now(line.id)[i], batch->probabilities()[i]);
        priorities[i] = static_cast<float>(rng.unit());
      }
      line.replay.update_priorities(batch->keys(), priorities);
    }
    return drawn;
  };
  EXPECT_EQ(history(), history());
}

TEST(RankBased, WritersAndSamplersMeetAtAnyTime) {
  const std::size_t steps = scaled(40'000, 4'000);
  Line line(ranked(2000, 3));
  std::atomic<int> writing = 3;
  std::vector<std::jthread> threads;
  start(threads, 3, [&](std::uint64_t w) {
    Writer writer = line.replay.writer();
    for (std::uint64_t i = 0; i < steps; ++i) {
      line.append(writer, w * 1'000'000 + i, i % 40 == 39 ? End::Terminated : End::Continue);
    }
    // Relaxed: only ends the loops.
    writing.fetch_sub(1, std::memory_order_relaxed);
  });
  start(threads, 2, [&](std::uint64_t s) {
    Sampler sampler = line.replay.sampler({.seed = s, .parallel_gather_bytes = kGatherAlone});
    Rng rng(s);
    std::vector<float> priorities(64);
    while (writing.load(std::memory_order_relaxed) != 0) {
      const SampleResult batch = sampler.sample(64, {.timeout = std::chrono::milliseconds(10)});
      if (!batch) {
        continue;
      }
      for (std::size_t i = 0; i < 64; ++i) {
        ASSERT_GT(batch->probabilities()[i], 0.0);
        ASSERT_LE(batch->probabilities()[i], 1.0 + 1e-9);
        priorities[i] = static_cast<float>(rng.unit());
      }
      line.replay.update_priorities(batch->keys(), priorities);
    }
  });
  threads.clear();
  // At rest the next call is up to date: new priorities for all, of known ranks.
  const auto keys = line.keys();
  std::vector<float> model(keys.rbegin()->first + 1, -1.0F);
  Rng rng(1);
  for (const auto& [number, key] : keys) {
    model[number] = static_cast<float>(rng.unit());
    line.update(key, model[number]);
  }
  const auto now = reported(line, keys, 64 * keys.size());
  EXPECT_LT(total_variation(now, rank_probabilities(model, kAlpha)), 0.006);
}

}  // namespace
}  // namespace reprise::test
