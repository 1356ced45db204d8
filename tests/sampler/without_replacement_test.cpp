#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

namespace reprise::test {
namespace {

const SampleOptions kWithout{.draws = Draws::WithoutReplacement,
                             .timeout = std::chrono::nanoseconds(0)};

/// Items numbered from 0 with these weights, over several shards.
class Weighted {
 public:
  explicit Weighted(const std::vector<float>& weights, std::size_t shards = 3)
      : line(options(weights.size(), shards)) {
    Writer writer = line.replay.writer();
    line.append_many(writer, 0, weights.size(), [&](std::uint64_t i) { return weights[i]; });
  }

  static Options options(std::size_t items, std::size_t shards) {
    return Small{
        .capacity_steps = std::max<std::size_t>(items, 64), .chunk_steps = 4, .shards = shards};
  }

  Line line;
};

TEST(WithoutReplacement, SumsOverABatchEstimateSumsOverTheBuffer) {
  std::vector<float> weights(60);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<float>(1 + i % 10 * i % 7 + (i == 33 ? 500 : 0));
  }
  Weighted world(weights);
  Sampler sampler = world.line.replay.sampler({.seed = 5});
  constexpr std::size_t kItems = 20;
  constexpr int kBatches = 20000;
  // The number of items, and the sum of their numbers.
  double count_sum = 0.0;
  double count_squares = 0.0;
  double id_sum = 0.0;
  double id_squares = 0.0;
  for (int b = 0; b < kBatches; ++b) {
    const SampleResult batch = require_batch(sampler.sample(kItems, kWithout));
    double items = 0.0;
    double ids = 0.0;
    for (std::size_t i = 0; i < kItems; ++i) {
      const double chance = batch->probabilities()[i] * static_cast<double>(kItems);
      ASSERT_GT(chance, 0.0);
      ASSERT_LE(chance, 1.0);
      items += 1.0 / chance;
      ids += static_cast<double>(batch->now(world.line.id)[i]) / chance;
    }
    count_sum += items;
    count_squares += items * items;
    id_sum += ids;
    id_squares += ids * ids;
  }
  const auto z = [](double sum, double squares, double expected) {
    const double mean = sum / kBatches;
    const double variance = squares / kBatches - mean * mean;
    return (mean - expected) / std::sqrt(variance / kBatches);
  };
  EXPECT_LT(std::abs(z(count_sum, count_squares, 60.0)), 5.0);
  EXPECT_LT(std::abs(z(id_sum, id_squares, 59.0 * 60.0 / 2.0)), 5.0);
}

TEST(WithoutReplacement, AWholeBufferIsCertain) {
  Weighted world({1e-30F, 1.0F, 1e30F, 7.0F});
  Sampler sampler = world.line.replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(4, kWithout));
  std::set<std::uint64_t> ids;
  for (std::size_t i = 0; i < 4; ++i) {
    ids.insert(batch->now(world.line.id)[i]);
    EXPECT_EQ(batch->probabilities()[i], 0.25);
    EXPECT_EQ(batch->weights()[i], 1.0F);
  }
  EXPECT_EQ(ids.size(), 4U);
}

TEST(WithoutReplacement, SaysWhetherItemsOrWeightsAreMissing) {
  Weighted world({1.0F, 0.0F, 3.0F});
  Sampler sampler = world.line.replay.sampler();
  EXPECT_TRUE(sampler.sample(2, kWithout));
  const SampleStatus weights = sampler.sample(3, kWithout).status();
  EXPECT_EQ(weights.code, SampleStatus::Code::NothingToDraw);
  const SampleStatus items = sampler.sample(4, kWithout).status();
  EXPECT_EQ(items.code, SampleStatus::Code::TimedOut);
  EXPECT_EQ(items.needed, 4U);
  EXPECT_EQ(items.items, 3U);
}

/// Draws three batches while an actor appends under a ratio that holds it at 42 steps.
void draw_under_ratio(Line& line, std::size_t n, Draws draws) {
  Sampler sampler = line.replay.sampler();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(sampler.sample(n, {.draws = draws, .timeout = std::chrono::seconds(10)}));
  }
}

Options ratio_options() {
  return Small{.rate_limiter =
                   SampleToInsertRatio{.samples_per_insert = 1.0, .error_buffer = 40.0}};
}

/// Appends until the buffer is closed.
std::jthread actor_of(Line& line) {
  return std::jthread([&line] {
    Writer writer = line.replay.writer();
    for (std::uint64_t i = 0; line.append(writer, i) != CommitStatus::Closed; ++i) {
    }
  });
}

TEST(WithoutReplacement, RefusesMoreItemsThanThereCanBe) {
  Line line;
  Sampler sampler = line.replay.sampler();
  EXPECT_THROW((void)sampler.sample(65, {.draws = Draws::WithoutReplacement, .timeout = {}}),
               std::invalid_argument);
  EXPECT_FALSE(sampler.sample(64, {.draws = Draws::WithoutReplacement, .timeout = {}}));
}

TEST(WithoutReplacement, WritersHeldByARatioGoOnForSamplersThatLackItems) {
  Line line(ratio_options());
  const std::jthread actor = actor_of(line);
  {
    const std::jthread another([&] { draw_under_ratio(line, 50, Draws::WithoutReplacement); });
    draw_under_ratio(line, 60, Draws::WithoutReplacement);
  }
  line.replay.close();
}

TEST(MaxTimesSampled, WritersHeldByARatioGoOnForASamplerThatLacksItems) {
  Line line(Small{.max_times_sampled = 1});
  const std::jthread actor = actor_of(line);
  draw_under_ratio(line, 60, Draws::Stratified);
  line.replay.close();
}

}  // namespace
}  // namespace reprise::test
