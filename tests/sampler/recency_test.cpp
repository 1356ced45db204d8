#include <reprise/reprise.hpp>

#include "../checkpoint/scratch_directory.hpp"
#include "testing/fixtures/line.hpp"
#include "testing/fixtures/refusal.hpp"
#include "testing/program/scale.hpp"
#include "testing/statistics/chi_square.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace reprise::test {
namespace {

Options by_age(std::size_t capacity, std::size_t shards, float p) {
  Options options = small_options();
  options.capacity_steps = capacity;
  options.shards = shards;
  options.chunk_steps = 8;
  options.max_writers = 8;
  options.selectors = {Recency{.p = p}};
  return options;
}

/// A buffer to which five writers append in turn, so that every shard has young and old items.
class Aging : public Line {
 public:
  explicit Aging(const Options& options)
      : Line(options), p_(static_cast<double>(options.selectors.at(0).target<Recency>()->p)) {
    for (int i = 0; i < 5; ++i) {
      writers_.push_back(replay.writer());
    }
  }

  /// Episodes of one step are decided at once, so an item's number is that of its step.
  void fill(std::size_t count) {
    for (; count > 0; --count, ++appended_) {
      append(writers_[appended_ % writers_.size()], appended_, End::Terminated);
    }
  }
  /// By number; 0 for items that are gone.
  std::vector<double> exact() {
    std::vector<double> exact(appended_);
    double total = 0.0;
    for (const auto& [number, key] : keys()) {
      exact[number] = std::pow(1.0 - p_, static_cast<double>(appended_ - 1 - number));
      total += exact[number];
    }
    for (double& probability : exact) {
      probability /= total;
    }
    return exact;
  }
  void expect_exact() {
    const std::vector<double> all = exact();
    const auto drawn = probabilities();
    ASSERT_TRUE(drawn.contains(appended_ - 1)) << "the youngest is the likeliest";
    for (const auto& [number, probability] : drawn) {
      ASSERT_NEAR(probability, all[number], 2e-7 * all[number]) << "item " << number;
    }
  }

 private:
  const double p_;
  std::vector<Writer> writers_;
  std::uint64_t appended_ = 0;
};

class RecencyIn : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Shards, RecencyIn, testing::Values(1U, 4U));

TEST_P(RecencyIn, DrawsPassChiSquareAgainstTheTruncatedGeometricDistribution) {
  Aging line(by_age(200, GetParam(), 0.02F));
  line.fill(1'000);
  line.expect_exact();
  const std::vector<double> exact = line.exact();
  std::vector<std::uint64_t> counts(exact.size());
  Sampler sampler = line.replay.sampler({.seed = 3});
  for (std::size_t drawn = 0; drawn < scaled(2'000'000, 200'000); drawn += 10'000) {
    const SampleResult batch = sampler.sample(10'000, {.draws = Draws::Independent});
    for (const std::uint64_t number : batch->now(line.id)) {
      ++counts[number];
    }
  }
  EXPECT_LT(std::abs(chi_square_z(counts, exact)), 5.0);
}

TEST_P(RecencyIn, StaysExactHoweverManyItemsComeBetweenTwoDraws) {
  Aging line(by_age(100, GetParam(), 0.1F));
  for (const std::size_t items : {1U, 7U, 200U, 421U, 422U, 423U, 800U, 5'000U, 3U, 20'000U, 90U}) {
    SCOPED_TRACE(items);
    line.fill(items);
    ASSERT_NO_FATAL_FAILURE(line.expect_exact());
  }
  // Now and then only some shards have changed their unit.
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    line.fill(13);
    ASSERT_NO_FATAL_FAILURE(line.expect_exact());
  }
}

TEST_P(RecencyIn, CountsItemsThatAreGone) {
  Options options = by_age(100, GetParam(), 0.1F);
  options.max_times_sampled = 1;
  options.selectors = {Recency{.p = 0.1F}, Fifo{}, Lifo{}};
  Aging line(options);
  line.fill(40);
  ASSERT_TRUE(line.replay.sampler({.selector = 1}).sample(5));
  ASSERT_TRUE(line.replay.sampler({.selector = 2}).sample(7));
  // Items 5 to 32 are left, and are as old as before.
  Sampler sampler = line.replay.sampler();
  const SampleResult batch = sampler.sample(1);
  ASSERT_TRUE(batch);
  const std::uint64_t number = batch->now(line.id)[0];
  double total = 0.0;
  for (int age = 32 - 5; age >= 0; --age) {
    total += std::pow(0.9, age);
  }
  const double exact = std::pow(0.9, 32.0 - static_cast<double>(number)) / total;
  EXPECT_NEAR(batch->probabilities()[0], exact, 1e-6 * exact);
}

TEST_P(RecencyIn, OldItemsCanBeDrawnHoweverUnlikely) {
  Aging line(by_age(2'000, GetParam(), 0.1F));
  line.fill(2'000);
  // The oldest are 10^-91 times as likely as the youngest.
  const SampleResult all =
      line.replay.sampler().sample(2'000, {.draws = Draws::WithoutReplacement, .timeout = {}});
  ASSERT_TRUE(all) << "each item once";
}

TEST_P(RecencyIn, DrawsTheSameAfterALoad) {
  const ScratchDirectory directory;
  Aging line(by_age(100, GetParam(), 0.1F));
  line.fill(3'000);
  line.replay.save(directory.path());
  ReplayBuffer loaded = ReplayBuffer::load(directory.path());
  Sampler before = line.replay.sampler({.seed = 5});
  Sampler after = loaded.sampler({.seed = 5});
  const SampleResult saved = before.sample(64);
  const SampleResult again = after.sample(64);
  ASSERT_TRUE(saved && again);
  EXPECT_TRUE(std::ranges::equal(saved->episode_ids(), again->episode_ids()));
  EXPECT_TRUE(std::ranges::equal(saved->probabilities(), again->probabilities()));
}

TEST(Recency, OfPZeroIsUniform) {
  Aging line(by_age(50, 1, 0.0F));
  line.fill(70);
  for (const auto& [number, probability] : line.probabilities()) {
    EXPECT_NEAR(probability, 1.0 / 50.0, 1e-12) << number;
  }
}

TEST(Recency, IgnoresPrioritiesAndHasNoAlpha) {
  Aging line(by_age(50, 1, 0.05F));
  line.fill(50);
  EXPECT_EQ(line.update(line.keys().at(3), 1e6F).applied, 1U);
  line.expect_exact();
  expect_refusal<std::invalid_argument>([&] { line.replay.set_alpha(0.5F); }, {"set_alpha"});
  expect_refusal<std::invalid_argument>([&] { line.replay.decay(0.5F); }, {"decay"});
}

TEST(Recency, RefusesOtherP) {
  for (const float p : {-0.01F, 0.51F, 1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    expect_refusal<std::invalid_argument>([p] { Line line(by_age(50, 1, p)); },
                                          {"Recency::p is", "allowed: 0 to 0.5"});
  }
}

}  // namespace
}  // namespace reprise::test
