#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"
#include "testing/fixtures/rng.hpp"
#include "testing/program/scale.hpp"
#include "testing/statistics/chi_square.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>
#include <vector>

namespace reprise::test {
namespace {

constexpr std::size_t kBatch = 10000;
constexpr std::uint64_t kPerWriter = 1'000'000;  ///< Writer w numbers its steps from here on.

/// The weight of a numbered step: an integer, so that every sum is exact.
float weight_of(std::uint64_t number) {
  return static_cast<float>(1 + Rng(number).below(1000));
}

/// A buffer whose items are known by slot, so that draws can be counted without gathering.
class Distribution {
 public:
  Distribution(std::size_t capacity, std::size_t shards, Selector selector = kRaw)
      : line_(options(capacity, shards, selector)) {}

  Line& line() { return line_; }

  /// `writers` threads append `items` in all at the same time.
  void fill(std::size_t writers, std::size_t items) {
    std::vector<std::jthread> threads;
    for (std::size_t w = 0; w < writers; ++w) {
      threads.emplace_back([this, w, count = items / writers] {
        Writer writer = line_.replay.writer();
        for (std::uint64_t i = 0; i < count; ++i) {
          const std::uint64_t number = w * kPerWriter + i;
          line_.append(writer, number, weight_of(number));
        }
      });
    }
    threads.clear();
    for (const auto& [number, key] : line_.keys()) {
      if (key.slot() >= weights_.size()) {
        weights_.resize(key.slot() + 1);
      }
      weights_[key.slot()] = static_cast<double>(weight_of(number));
    }

    ASSERT_EQ(line_.replay.size(), items);
  }

  void use_equal_weights() {
    for (double& weight : weights_) {
      weight = weight > 0.0 ? 1.0 : 0.0;
    }
  }

  /// Draws until there are this many and gives z of the chi-square test; checks every reported
  /// probability on the way.
  double z_of_draws(std::uint64_t draws, Draws how) {
    const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    std::vector<double> probabilities;
    for (const double weight : weights_) {
      probabilities.push_back(weight / total);
    }
    std::vector<std::uint64_t> counts(weights_.size());
    Sampler sampler = line_.replay.sampler({.seed = 20});
    double worst = 0.0;
    for (std::uint64_t drawn = 0; drawn < draws; drawn += kBatch) {
      const SampleResult batch = sampler.sample(kBatch, {.draws = how, .gather = false});
      const auto keys = batch->keys();
      const auto reported = batch->probabilities();
      for (std::size_t i = 0; i < kBatch; ++i) {
        const std::size_t slot = keys[i].slot();
        if (slot >= counts.size() || weights_[slot] <= 0.0) {
          ADD_FAILURE() << "drew an item of weight 0";
          return 0.0;
        }
        ++counts[slot];
        worst = std::max(worst, std::abs(reported[i] / probabilities[slot] - 1.0));
      }
    }
    EXPECT_LT(worst, 1e-12) << "relative error of a reported probability";
    return chi_square_z(counts, probabilities);
  }

 private:
  static Options options(std::size_t capacity, std::size_t shards, const Selector& selector) {
    Options options = small_options();
    options.capacity_steps = capacity;
    options.shards = shards;
    options.chunk_steps = 256;
    options.max_writers = 32;
    options.selectors = {selector};
    return options;
  }

  Line line_;
  std::vector<double> weights_;  ///< By slot.
};

constexpr std::size_t kItems = 16384;

class DrawsOf : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Shards, DrawsOf, testing::Values(1U, 4U));

TEST_P(DrawsOf, ProportionalPassChiSquareAtTenMillionDrawsAfterOneWriter) {
  Distribution distribution(kItems, GetParam());
  distribution.fill(1, kItems);
  EXPECT_LT(std::abs(distribution.z_of_draws(scaled(10'000'000, 500'000), Draws::Independent)),
            5.0);
}

TEST_P(DrawsOf, ProportionalPassChiSquareAtTenMillionDrawsWithSixteenConcurrentWriters) {
  Distribution distribution(std::size_t{1} << 20U, GetParam());
  distribution.fill(16, kItems);
  // The writers go on with items of weight 0: the trees change all the time, the distribution
  // must not.
  std::atomic<bool> done = false;
  std::vector<std::jthread> writers;
  for (std::uint64_t w = 0; w < 16; ++w) {
    writers.emplace_back([&, w] {
      Writer writer = distribution.line().replay.writer();
      for (std::uint64_t i = 0; i < 60000 && !done.load(std::memory_order_relaxed); ++i) {
        distribution.line().append(writer, (100 + w) * kPerWriter + i, 0.0F);
        if (i % 16 == 0) {
          std::this_thread::yield();
        }
      }
    });
  }
  yield_while([&] { return distribution.line().replay.size() == kItems; });
  const double z = distribution.z_of_draws(scaled(10'000'000, 500'000), Draws::Independent);
  done.store(true, std::memory_order_relaxed);
  writers.clear();
  EXPECT_LT(std::abs(z), kNeverByChance);
}

TEST_P(DrawsOf, StratifiedAreNoFurtherFromTheDistributionThanIndependentOnes) {
  Distribution distribution(kItems, GetParam());
  distribution.fill(2, kItems);
  EXPECT_LT(distribution.z_of_draws(scaled(2'000'000, 200'000), Draws::Stratified), kNeverByChance);
}

TEST_P(DrawsOf, UniformPassChiSquare) {
  Distribution distribution(kItems, GetParam(), Uniform{});
  distribution.fill(4, kItems);
  distribution.use_equal_weights();
  EXPECT_LT(std::abs(distribution.z_of_draws(scaled(5'000'000, 500'000), Draws::Independent)),
            kNeverByChance);
}

TEST_P(DrawsOf, ProportionalPassChiSquareAfterManyUpdatesAndEvictions) {
  Options options = small_options();
  options.capacity_steps = 3000;
  options.shards = GetParam();
  options.chunk_steps = 100;
  Line line(options);
  Writer writer = line.replay.writer();
  Rng rng(77);
  line.append_many(writer, 0, 20000,
                   [&](std::uint64_t) { return static_cast<float>(rng.below(64)); });
  const auto keys = line.keys();
  ASSERT_EQ(keys.size(), 3000U);
  std::vector<ItemKey> all;
  std::vector<float> priorities;
  std::vector<double> probabilities(20000);
  for (int repeat = 0; repeat < 5; ++repeat) {
    all.clear();
    priorities.clear();
    for (const auto& [number, key] : keys) {
      all.push_back(key);
      priorities.push_back(rng.chance(0.2) ? 0.0F : static_cast<float>(rng.below(1000)));
      probabilities[number] = static_cast<double>(priorities.back());
    }
    line.replay.update_priorities(all, priorities);
  }
  const double total = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (double& probability : probabilities) {
    probability /= total;
  }
  std::vector<std::uint64_t> counts(20000);
  Sampler sampler = line.replay.sampler({.seed = 5});
  for (std::size_t drawn = 0; drawn < scaled(2'000'000, 200'000); drawn += kBatch) {
    const SampleResult batch = sampler.sample(kBatch, {.draws = Draws::Independent});
    ASSERT_TRUE(batch);
    for (std::size_t i = 0; i < kBatch; ++i) {
      const std::uint64_t number = batch->now(line.id)[i];
      ASSERT_NEAR(batch->probabilities()[i], probabilities[number], 1e-12 * probabilities[number]);
      ++counts[number];
    }
  }
  EXPECT_LT(std::abs(chi_square_z(counts, probabilities)), 5.0);
}

}  // namespace
}  // namespace reprise::test
