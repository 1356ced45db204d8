// Compares every selector with its exact law, in one shard and in several.

#include "testing/laws/selector_laws.hpp"

#include "testing/laws/law_check.hpp"
#include "testing/statistics/chi_square.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

using LawInShards = std::tuple<SelectorLaw, std::size_t>;

class LawTest : public testing::TestWithParam<LawInShards> {
 protected:
  const SelectorLaw& law = std::get<0>(GetParam());
  const std::size_t shards = std::get<1>(GetParam());
};

std::string name_of(const testing::TestParamInfo<LawInShards>& info) {
  return std::get<0>(info.param).name + "In" + std::to_string(std::get<1>(info.param));
}

/// Tests of every selector.
class SelectorLaws : public LawTest {};
INSTANTIATE_TEST_SUITE_P(All, SelectorLaws,
                         testing::Combine(testing::ValuesIn(selector_laws()),
                                          testing::Values(1U, 4U)),
                         name_of);

/// Tests of selectors that draw by chance.
class DrawLaws : public LawTest {};
INSTANTIATE_TEST_SUITE_P(All, DrawLaws,
                         testing::Combine(testing::ValuesIn(random_selector_laws()),
                                          testing::Values(1U, 4U)),
                         name_of);

TEST(SelectorLawTable, HasEverySelectorOfTheLibrary) {
  for (const StrategyKind<Selector>& kind : selectors()) {
    EXPECT_NO_THROW((void)law_named(std::string(kind.name()))) << kind.name();
  }
}

TEST_P(DrawLaws, HoldForTheDrawsOfItemsAtRest) {
  for (const Draws draws : {Draws::Independent, Draws::Stratified}) {
    LawCheck check(law, shards);
    check.append_random(150);
    check.update(40);
    for (std::size_t drawn = 0; drawn < scaled(400'000, 100'000); drawn += 5'000) {
      ASSERT_NO_FATAL_FAILURE(
          check.draw(5'000, {.beta = 0.5F, .normalise = Normalise::Not, .draws = draws}));
    }
    // Stratified draws may be nearer to the law than independent ones, but not farther.
    EXPECT_LT(check.z(), kMaxZ);
    EXPECT_TRUE(draws == Draws::Stratified || check.z() > -kMaxZ) << check.z();
  }
}

/// The limit of the second case is never reached, but with a limit draws use another `DrawPlan`,
/// which counts draws.
TEST_P(DrawLaws, GiveImportanceWeights) {
  for (const std::uint32_t limit : {0U, 1'000'000U}) {
    Options options = LawCheck::options(shards);
    options.max_times_sampled = limit;
    LawCheck check(law, options, 1);
    check.append_random(120);
    // The item with the lowest priority is in another shard each time.
    for (const std::uint64_t lowest : {60U, 61U, 62U, 63U, 64U}) {
      check.set_priority(lowest, 1.0F / static_cast<float>(lowest));
      for (const Normalise normalise : {Normalise::ByBatch, Normalise::ByBuffer, Normalise::Not}) {
        for (const float beta : {0.0F, 0.1F, 0.4F, 0.73F, 1.0F}) {
          SCOPED_TRACE(testing::Message() << "limit " << limit << ", beta " << beta << ", by "
                                          << static_cast<int>(normalise));
          for (const std::size_t n : {1U, 5U, 777U}) {
            ASSERT_NO_FATAL_FAILURE(check.draw(n, {.beta = beta, .normalise = normalise}));
          }
        }
      }
    }
  }
}

TEST_P(SelectorLaws, HoldWhileItemsComeChangeAndLeave) {
  LawCheck check(law, shards, 7);
  check.append_random(30);
  Rng rng(8);
  for (std::size_t round = 0; round < scaled(500, 100) && !HasFailure(); ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    check.append_random(rng.below(10));
    // The items that were appended last need not be ingested yet.
    if (law.alpha >= 0.0F && rng.chance(0.02)) {
      check.set_alpha(rng.chance(0.5) ? 0.5F : 1.25F);
    }
    if (law.alpha >= 0.0F && rng.chance(0.05)) {
      check.decay();
    }
    check.update(rng.below(6));
    if (rng.chance(0.1)) {
      check.remove(rng.below(3));
    }
    if (rng.chance(0.02)) {
      check.append_random(rng.below(6'000));
    }
    if (round == 60) {
      check.save_and_restore();
    }
    check.draw(law.in_order ? 1 + rng.below(check.items()) : 200,
               {.normalise = static_cast<Normalise>(round % 3),
                .draws = Draws::Independent,
                .timeout = {}});
  }
  EXPECT_TRUE(law.in_order || std::abs(check.z()) < kMaxZ) << check.z();
}

TEST_P(SelectorLaws, HoldForItemsThatAreNotOutdated) {
  Options options = LawCheck::options(shards);
  options.max_staleness = LawCheck::kStaleness;
  LawCheck check(law, options, 9);
  Rng rng(10);
  for (std::size_t round = 0; round < scaled(200, 60) && !HasFailure(); ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    check.append_random(10 + rng.below(10));
    check.raise_version();
    check.update(rng.below(6));
    if (rng.chance(0.1)) {
      check.remove(rng.below(3));
    }
    if (round == 30) {
      check.save_and_restore();
    }
    EXPECT_LT(check.items(), 60U) << "of 100";
    check.draw(law.in_order ? 1 + rng.below(check.items()) : 200,
               {.normalise = static_cast<Normalise>(round % 3),
                .draws = Draws::Independent,
                .timeout = {}});
  }
  EXPECT_TRUE(law.in_order || std::abs(check.z()) < kMaxZ) << check.z();
}

/// With a draw limit, each batch follows the law for the items that have draws left.
TEST_P(SelectorLaws, HoldForItemsThatHaveDrawsLeft) {
  constexpr std::size_t kDrawnThrice = 64;
  static_assert(static_cast<int>(Draws::WithoutReplacement) == 2);
  Options options = LawCheck::options(shards);
  options.max_times_sampled = 3;
  std::vector<float> priorities(kDrawnThrice);
  Rng rng(5);
  std::ranges::generate(priorities, [&] { return static_cast<float>(1 + rng.below(20)); });
  DrawCounts counts;
  for (std::uint64_t seed = 0; seed < scaled(40, 4) && !HasFailure(); ++seed) {
    LawCheck check(law, options, seed);
    check.append(priorities);
    const std::size_t n = seed % 4 == 3 && !law.in_order ? 4 : 1;
    for (std::size_t drawn = 0; drawn < 3 * kDrawnThrice && !HasFailure(); drawn += n) {
      check.draw(n, {.beta = 1.0F,
                     .normalise = Normalise::Not,
                     .draws = n == 1 ? static_cast<Draws>(seed % 3) : Draws::Stratified,
                     .timeout = {}});
      if (drawn == kDrawnThrice) {
        // Counts are taken early, because in the end each item is drawn three times under any law.
        counts.add(check.counts());
      }
    }
    EXPECT_EQ(check.items(), 0U);
    EXPECT_EQ(as_lvalue(check.line.replay.sampler()).sample(1, kNoWait).status().code,
              SampleStatus::Code::TimedOut);
  }
  EXPECT_TRUE(law.in_order || std::abs(counts.z()) < kMaxZ) << counts.z();
}

TEST_P(SelectorLaws, HoldWithoutReplacement) {
  const std::vector<float> priorities{1.0F, 2.0F, 3.0F, 100.0F, 5.0F, 0.0F, 1.0F};
  LawCheck check(law, shards);
  check.append(priorities);
  const std::vector<double> weights = check.weights();
  const SampleOptions without{
      .normalise = Normalise::Not, .draws = Draws::WithoutReplacement, .timeout = {}};
  for (const std::size_t n : {1U, 2U, 4U}) {
    SCOPED_TRACE(testing::Message() << "n " << n);
    const std::vector<double> expected = subset_probabilities(weights, n);
    std::vector<std::uint64_t> counts(expected.size());
    Sampler sampler = check.line.replay.sampler({.seed = n});
    for (std::size_t i = 0; i < scaled(10'000, 2'000); ++i) {
      const SampleResult batch = require_batch(sampler.sample(n, without));
      std::size_t set = 0;
      for (const std::uint64_t number : batch->now(check.line.action)) {
        set |= std::size_t{1} << number;
      }
      ++counts[set];
    }
    EXPECT_TRUE(law.in_order || std::abs(chi_square_z(counts, expected)) < kMaxZ);
    ASSERT_NO_FATAL_FAILURE(check.draw(n, without));
  }
  ASSERT_NO_FATAL_FAILURE(check.draw(6, {.draws = Draws::Independent, .timeout = {}}))
      << "items that a draw hid are as they were";
}

/// Whatever the distribution was at each batch, the mean of 1 / (N * P) over the draws is 1.
TEST_P(DrawLaws, ReportWhatTheyDrewWithWhileOthersUpdate) {
  LawCheck check(law, shards);
  std::vector<float> priorities(100);
  Rng rng(9);
  std::ranges::generate(priorities, [&] { return static_cast<float>(1 + rng.below(50)); });
  check.append(priorities);
  const auto keys = check.line.keys();
  std::atomic<bool> done = false;
  std::jthread other([&] {
    while (!done.load(std::memory_order_relaxed)) {
      const auto priority = static_cast<float>(1 + rng.below(50));
      check.line.update(keys.at(rng.below(100)), priority);
    }
  });
  Sampler sampler = check.line.replay.sampler({.seed = 10});
  double sum = 0.0;
  double squares = 0.0;
  const std::size_t batches = scaled(5'000, 1'000);
  for (std::size_t i = 0; i < batches; ++i) {
    const SampleResult batch = sampler.sample(64, {.draws = Draws::Independent, .gather = false});
    for (const double probability : batch->probabilities()) {
      sum += 1.0 / (100.0 * probability);
      squares += 1.0 / (100.0 * probability) / (100.0 * probability);
    }
  }
  done.store(true, std::memory_order_relaxed);
  const double draws = 64.0 * static_cast<double>(batches);
  const double mean = sum / draws;
  const double deviation = std::sqrt(std::max(0.0, squares / draws - mean * mean) / draws);
  EXPECT_NEAR(mean, 1.0, kNeverByChance * deviation + 1e-6);
}

}  // namespace
}  // namespace reprise::test
