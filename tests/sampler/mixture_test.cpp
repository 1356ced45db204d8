#include <reprise/reprise.hpp>

#include "../checkpoint/scratch_directory.hpp"
#include "testing/fixtures/line.hpp"
#include "testing/fixtures/refusal.hpp"
#include "testing/fixtures/rng.hpp"
#include "testing/program/scale.hpp"
#include "testing/statistics/chi_square.hpp"
#include "testing/statistics/ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <thread>
#include <vector>

namespace reprise::test {
namespace {

constexpr float kUniform = 0.25F;

Options mixed(std::size_t shards, const Mixture& mixture = {.uniform = kUniform, .alpha = 1.0F}) {
  Options options = small_options();
  options.capacity_steps = 100;
  options.shards = shards;
  options.chunk_steps = 8;
  options.max_writers = 8;
  options.selectors = {mixture};
  return options;
}

/// A buffer to which five writers append in turn, so that every shard has some items, and what the
/// priorities should be.
class Mixed : public Line {
 public:
  explicit Mixed(const Options& options) : Line(options) {
    for (int i = 0; i < 5; ++i) {
      writers_.push_back(replay.writer());
    }
  }

  void fill(std::span<const float> priorities) {
    for (const float priority : priorities) {
      const std::uint64_t number = priorities_.size();
      append(writers_[number % writers_.size()], number, End::Terminated, {&priority, 1});
      priorities_.push_back(priority);
    }
  }
  void change(std::uint64_t number, float priority) {
    ASSERT_EQ(update(keys().at(number), priority).applied, 1U);
    priorities_[number] = priority;
  }
  /// By number; 0 for items that are gone.
  std::vector<double> exact(double uniform = kUniform) {
    std::vector<std::uint64_t> left = numbers();
    std::vector<float> priorities;
    for (const std::uint64_t number : left) {
      priorities.push_back(priorities_[number]);
    }
    const std::vector<double> of_left = mixed_probabilities(priorities, uniform);
    std::vector<double> exact(priorities_.size());
    for (std::size_t i = 0; i < left.size(); ++i) {
      exact[left[i]] = of_left[i];
    }
    return exact;
  }
  void expect_exact(double uniform = kUniform) {
    const std::vector<double> all = exact(uniform);
    const auto drawn = probabilities();
    ASSERT_FALSE(drawn.empty());
    for (const auto& [number, probability] : drawn) {
      ASSERT_NEAR(probability, all[number], 2e-7 * all[number]) << "item " << number;
    }
  }

 private:
  std::vector<Writer> writers_;
  std::vector<float> priorities_;
};

std::vector<float> random_priorities(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> priorities(count);
  std::ranges::generate(priorities, [&] { return static_cast<float>(rng.below(50)); });
  return priorities;
}

class MixtureIn : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Shards, MixtureIn, testing::Values(1U, 4U));

TEST_P(MixtureIn, DrawsPassChiSquareAgainstTheExactDistribution) {
  Mixed line(mixed(GetParam()));
  line.fill(random_priorities(150, 1));
  line.change(149, 500.0F);
  line.change(148, 0.0F);
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
  EXPECT_GT(counts[148], 0U) << "an item of priority 0 is drawn uniformly";
  EXPECT_LT(std::abs(chi_square_z(counts, exact)), 5.0);
}

TEST_P(MixtureIn, StaysExactUnderUpdatesAndEvictions) {
  Mixed line(mixed(GetParam()));
  line.fill(random_priorities(90, 2));
  Rng rng(3);
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    const std::vector<std::uint64_t> left = line.numbers();
    line.change(left[rng.below(left.size())], static_cast<float>(rng.below(1'000)));
    line.fill(random_priorities(rng.below(5), 100 + static_cast<std::uint64_t>(i)));
    ASSERT_NO_FATAL_FAILURE(line.expect_exact());
  }
}

TEST_P(MixtureIn, IsUniformWhileNoPriorityIsAboveZero) {
  Mixed line(mixed(GetParam()));
  line.fill(std::vector<float>(70));
  line.expect_exact();
  line.change(20, 1.0F);
  line.expect_exact();
}

TEST_P(MixtureIn, OfOnePartIsThatPart) {
  for (const float uniform : {0.0F, 1.0F}) {
    Mixed line(mixed(GetParam(), {.uniform = uniform, .alpha = 1.0F}));
    line.fill(random_priorities(80, 4));
    line.change(30, 0.0F);
    line.expect_exact(double{uniform});
    EXPECT_EQ(line.probabilities().contains(30), uniform == 1.0F);
  }
}

TEST_P(MixtureIn, AnItemHasOneIntervalSoALimitHolds) {
  Options options = mixed(GetParam());
  options.max_times_sampled = 3;
  Mixed line(options);
  line.fill(random_priorities(64, 5));
  std::map<std::uint64_t, int> draws;
  Sampler sampler = line.replay.sampler({.seed = 6});
  for (int batch = 0; batch < 6; ++batch) {
    const SampleResult drawn = sampler.sample(32, kAtOnce);
    ASSERT_TRUE(drawn) << drawn.status().message();
    for (const std::uint64_t number : drawn->now(line.id)) {
      EXPECT_LE(++draws[number], 3) << number;
    }
  }
  EXPECT_EQ(draws.size(), 64U) << "each three times";
}

TEST_P(MixtureIn, HiddenItemsComeBackAsTheyWere) {
  Mixed line(mixed(GetParam()));
  line.fill(random_priorities(100, 7));
  const SampleResult all = line.replay.sampler().sample(100, {.draws = Draws::WithoutReplacement});
  ASSERT_TRUE(all);
  line.expect_exact();
}

TEST_P(MixtureIn, CanHaveItsAlphaSetAndDecay) {
  Mixed line(mixed(GetParam()));
  const std::vector<float> fourths{0.0F, 1.0F, 16.0F, 81.0F, 256.0F};
  line.fill(fourths);
  line.replay.decay(0.5F);
  line.expect_exact();
  line.replay.set_alpha(0.5F);
  EXPECT_EQ(line.replay.alpha(), 0.5F);
  const auto drawn = line.probabilities();
  for (std::size_t i = 0; i < fourths.size(); ++i) {
    const double exact =
        0.25 / 5.0 + 0.75 * std::sqrt(double{fourths[i]}) / (1.0 + 4.0 + 9.0 + 16.0);
    EXPECT_NEAR(drawn.at(i), exact, 1e-6 * exact) << i;
  }
}

TEST_P(MixtureIn, ReportsWhatItDrewWithWhileOthersUpdate) {
  Mixed line(mixed(GetParam()));
  line.fill(random_priorities(100, 8));
  const auto keys = line.keys();
  std::atomic<bool> done = false;
  std::jthread other([&] {
    Rng rng(9);
    while (!done.load(std::memory_order_relaxed)) {
      const float priority = static_cast<float>(rng.below(1'000));
      line.replay.update_priorities(
          {&std::next(keys.begin(), static_cast<long>(rng.below(100)))->second, 1}, {&priority, 1});
    }
  });
  // Whatever the distribution of a batch, the mean of 1 / (N * P) over its draws is 1.
  Sampler sampler = line.replay.sampler({.seed = 10});
  double sum = 0.0;
  const std::size_t batches = scaled(20'000, 2'000);
  for (std::size_t i = 0; i < batches; ++i) {
    const SampleResult batch = sampler.sample(64, {.draws = Draws::Independent, .gather = false});
    for (const double probability : batch->probabilities()) {
      sum += 1.0 / (100.0 * probability);
    }
  }
  done.store(true, std::memory_order_relaxed);
  // 1 / (N * P) is at most 4.
  const double draws = 64.0 * static_cast<double>(batches);
  EXPECT_NEAR(sum / draws, 1.0, 5.0 * 4.0 / std::sqrt(draws));
}

TEST_P(MixtureIn, DrawsTheSameAfterALoad) {
  const ScratchDirectory directory;
  Mixed line(mixed(GetParam()));
  line.fill(random_priorities(150, 12));
  line.change(140, 700.0F);
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

TEST(Mixture, BoundsImportanceWeightsHoweverFarApartPrioritiesAre) {
  Mixed line(mixed(1, {.uniform = 0.0F, .alpha = 1.0F}));
  line.fill(std::vector<float>{1e-37F, 3e38F});
  Sampler sampler = line.replay.sampler();
  const SampleResult batch = sampler.sample(2, {.beta = 1.0F, .normalise = Normalise::ByBuffer});
  ASSERT_TRUE(batch);
  for (const float weight : batch->weights()) {
    EXPECT_GT(weight, 0.0F);
    EXPECT_LT(weight, 1e-30F) << "beside the weight of the other item";
  }
}

TEST(Mixture, RefusesOptionsByName) {
  for (const float uniform : {-0.1F, 1.1F, std::numeric_limits<float>::quiet_NaN()}) {
    expect_refusal<std::invalid_argument>([&] { Line line(mixed(1, {.uniform = uniform})); },
                                          {"Mixture::uniform is", "allowed: 0 to 1"});
  }
  expect_refusal<std::invalid_argument>([] { Line line(mixed(1, {.alpha = 9.0F})); },
                                        {"Mixture::alpha is 9", "allowed: 0 to 8"});
}

}  // namespace
}  // namespace reprise::test
