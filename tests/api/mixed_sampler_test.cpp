#include "testing/laws/draw_counts.hpp"
#include "testing/test.hpp"
#include "two_lines.hpp"

namespace reprise::test {
namespace {

using Code = SampleStatus::Code;

/// Expects the weights of a batch to be the raw ones divided by `divisor`.
void expect_weights(const SampleResult& batch, const std::vector<double>& raw, double divisor) {
  for (std::size_t i = 0; i < raw.size(); ++i) {
    EXPECT_NEAR(batch->weights()[i], raw[i] / divisor, 1e-5 * raw[i] / divisor) << i;
  }
}

/// Part p of a mixed sampler of seed s has the items of a sampler of seed s + p of an equal buffer.
TEST(MixedSampler, DrawsEachExactPartAsASamplerOfItsSeed) {
  for (const Draws draws :
       {Draws::Stratified, Draws::Independent, Draws::WithoutReplacement, Draws::Epoch}) {
    TwoBuffers two;
    TwoBuffers twins;
    MixedSampler all({{two.first.replay, 5}, {two.second.replay, 5}, {two.first.replay, 3}},
                     {.seed = 5});
    Sampler parts[] = {twins.first.replay.sampler({.seed = 5}),
                       twins.second.replay.sampler({.seed = 6}),
                       twins.first.replay.sampler({.seed = 7})};
    for (int i = 0; i < 24; ++i) {
      const auto beta = static_cast<float>(i % 3) / 2.0F;
      const bool by_batch = i % 2 == 0;
      const SampleResult batch =
          require_batch(all.sample({.beta = beta,
                                    .normalise = by_batch ? Normalise::ByBatch : Normalise::Not,
                                    .draws = draws}));
      ASSERT_EQ(batch->size(), 13U);
      EXPECT_EQ(batch.status().batch, 13U);
      EXPECT_EQ(std::vector(all.counts().begin(), all.counts().end()),
                (std::vector<std::size_t>{5, 5, 3}));
      expect_whole_rows(batch, two.first);
      std::vector<double> raw;
      auto passes = std::numeric_limits<std::uint64_t>::max();
      for (std::size_t p = 0, at = 0; p < 3; at += all.counts()[p++]) {
        const std::size_t n = all.counts()[p];
        const SampleResult own = require_batch(
            parts[p].sample(n, {.beta = beta, .normalise = Normalise::Not, .draws = draws}));
        EXPECT_TRUE(std::ranges::equal(batch->keys().subspan(at, n), own->keys()));
        EXPECT_TRUE(
            std::ranges::equal(batch->probabilities().subspan(at, n), own->probabilities()));
        EXPECT_EQ(all.statuses()[p].passes, own.status().passes);
        passes = std::min(passes, own.status().passes);
        raw.insert(raw.end(), own->weights().begin(), own->weights().end());
      }
      EXPECT_EQ(batch.status().passes, passes) << "the fewest passes of all parts";
      expect_weights(batch, raw, by_batch ? *std::ranges::max_element(raw) : 1.0);
    }
    EXPECT_EQ(two.first.replay.stats().sampled_items, twins.first.replay.stats().sampled_items);
    EXPECT_EQ(two.second.replay.stats().sampled_items, twins.second.replay.stats().sampled_items);
    MixedSampler single({{two.first.replay, 4}}, {.seed = 5});
    Sampler same_seed = two.first.replay.sampler({.seed = 5});
    const SampleOptions by_buffer{.beta = 1.0F, .normalise = Normalise::ByBuffer, .draws = draws};
    EXPECT_TRUE(std::ranges::equal(require_batch(single.sample(by_buffer))->weights(),
                                   require_batch(same_seed.sample(4, by_buffer))->weights()));
  }
}

/// Counts of draws, which are expected in proportion to the weights of both buffers' items.
DrawCounts counts_by_weight(TwoBuffers& two) {
  DrawCounts counts;
  for (const auto& [number, weight] : two.weights()) {
    counts.expect(number, double{weight});
  }
  return counts;
}

/// The importance weight (N * P)^-beta of each item, computed by its definition.
std::vector<double> raw_weights(const SampleResult& batch, double beta, const NumberedBuffer& line,
                                const std::map<std::uint64_t, float>& weights) {
  constexpr double kItems = 40.0;  // Of both buffers.
  std::vector<double> raw;
  for (const std::uint64_t number : numbers_of(batch, line)) {
    raw.push_back(std::pow(kItems * double{weights.at(number)} / TwoBuffers::kTotal, -beta));
  }
  return raw;
}

TEST(MixedSampler, ByTheCommonTotalReportsProbabilitiesAndWeightsOverBothBuffers) {
  TwoBuffers two;
  MixedSampler both({two.first.replay, two.second.replay}, 40, {.seed = 3});
  const auto weights = two.weights();
  for (const Draws draws : {Draws::Stratified, Draws::Independent}) {
    for (const float beta : {0.0F, 0.4F, 1.0F}) {
      SampleOptions options{.beta = beta, .draws = draws};
      const SampleResult whole = require_batch(both.sample(options));
      expect_whole_rows(whole, two.first);
      EXPECT_EQ(whole.status().batch, 40U);
      EXPECT_EQ(whole.status().items, 40U);
      EXPECT_EQ(whole.status().needed, 2U);
      const auto numbers = numbers_of(whole, two.first);
      for (std::size_t i = 0; i < 40; ++i) {
        EXPECT_NEAR(whole->probabilities()[i], double{weights.at(numbers[i])} / TwoBuffers::kTotal,
                    1e-12);
        EXPECT_EQ(numbers[i] >= kOther, i >= both.counts()[0]);
      }
      const auto raw = raw_weights(whole, double{beta}, two.first, weights);
      expect_weights(whole, raw, *std::ranges::max_element(raw));
      options.normalise = Normalise::ByBuffer;
      const SampleResult by_buffer = both.sample(options);
      expect_weights(by_buffer, raw_weights(by_buffer, double{beta}, two.first, weights),
                     std::pow(40.0 / TwoBuffers::kTotal, double{-beta}));
      options.normalise = Normalise::Not;
      const SampleResult not_scaled = both.sample(options);
      expect_weights(not_scaled, raw_weights(not_scaled, double{beta}, two.first, weights), 1.0);
    }
  }
}

TEST(MixedSampler, ByTheCommonTotalPassesChiSquare) {
  TwoBuffers two;
  const auto weights = two.weights();
  for (const Draws draws : {Draws::Stratified, Draws::Independent}) {
    // With n = 1, each share is less than an item.
    for (const std::size_t n : {1U, 3U, 32U}) {
      MixedSampler both({two.first.replay, two.second.replay}, n, {.seed = 11 + n});
      DrawCounts counts = counts_by_weight(two);
      for (std::size_t batches = scaled(64'000 / n, 2'000 / n); batches != 0; --batches) {
        const SampleResult batch = require_batch(both.sample({.draws = draws}));
        counts.count(numbers_of(batch, two.first));
      }
      // Stratified draws may be nearer to the distribution than independent ones, but not farther.
      EXPECT_LT(counts.z(), 4.0) << n;
      EXPECT_TRUE(draws == Draws::Stratified || counts.z() > -4.0) << n;
    }
  }
}

/// The choice of the part and the choice of an item in it must use independent random numbers, also
/// in the first batch of a seed.
TEST(MixedSampler, ByTheCommonTotalTheFirstBatchesOfManySeedsPassChiSquare) {
  TwoBuffers two;
  DrawCounts counts = counts_by_weight(two);
  for (std::size_t seed = scaled(4'000, 1'000); seed != 0; --seed) {
    MixedSampler both({two.first.replay, two.second.replay}, 1, {.seed = 3 * seed});
    counts.count(both.sample()->now(two.first.action)[0]);
  }
  EXPECT_LT(counts.z(), 4.0);
}

TEST(MixedSampler, ByTheCommonTotalGivesStratifiedPartsTheirShareRoundedUpOrDown) {
  TwoBuffers two;
  MixedSampler both({two.first.replay, two.second.replay}, 32, {.seed = 2});
  const double share = 32.0 * 55.0 / TwoBuffers::kTotal;
  bool rounded_up = false;
  bool rounded_down = false;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(both.sample());
    const std::size_t count = both.counts()[0];
    EXPECT_EQ(count + both.counts()[1], 32U);
    rounded_up |= count == static_cast<std::size_t>(std::ceil(share));
    rounded_down |= count == static_cast<std::size_t>(std::floor(share));
    EXPECT_NEAR(static_cast<double>(count), share, 1.0);
  }
  EXPECT_TRUE(rounded_up && rounded_down);
  bool off_by_more = false;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(both.sample({.draws = Draws::Independent}));
    off_by_more |= std::abs(static_cast<double>(both.counts()[0]) - share) > 1.0;
  }
  EXPECT_TRUE(off_by_more) << "independent draws have no such bound";
}

TEST(MixedSampler, AnEpsilonOfOneBufferIsABonusForItsItems) {
  NumberedBuffer agent(options_of(1, Proportional{.alpha = 0.5F, .epsilon = 0.0F}));
  NumberedBuffer teacher(options_of(2, Proportional{.alpha = 0.5F, .epsilon = 3.0F}));
  agent.append_many(0, 4, 1.0F);
  teacher.append_many(kOther, 2, 1.0F);
  MixedSampler both({agent.replay, teacher.replay}, 8);
  const SampleResult batch = require_batch(both.sample());
  EXPECT_EQ(both.counts()[0], 4U);
  for (std::size_t i = 0; i < 8; ++i) {
    // The first buffer's items weigh 4 * 1^0.5 in all, the second's 2 * (1 + 3)^0.5.
    EXPECT_NEAR(batch->probabilities()[i], i < 4 ? 1.0 / 8 : 2.0 / 8, 1e-6);
  }
}

TEST(MixedSampler, ABufferWithoutWeightGivesNoItemsAndIsNotWaitedFor) {
  NumberedBuffer empty(options_of(1));
  TwoBuffers two;
  MixedSampler both({empty.replay, two.second.replay}, 6);
  for (int i = 0; i < 5; ++i) {
    const SampleResult batch = require_batch(both.sample());
    EXPECT_EQ(both.counts()[0], 0U);
    EXPECT_EQ(both.counts()[1], 6U);
    for (const std::uint64_t number : numbers_of(batch, two.second)) {
      EXPECT_GE(number, kOther);
    }
  }
}

TEST(MixedSampler, WaitsForTheFirstBufferWhileNoneHasWeight) {
  NumberedBuffer one(options_of(1));
  NumberedBuffer other(options_of(2));
  MixedSampler both({one.replay, other.replay}, 4);
  const SampleResult none = both.sample({.timeout = 1ms});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.status().code, Code::TimedOut);
  EXPECT_GE(none.status().waited, 1ms);
  EXPECT_EQ(both.waits_for(), 0U);
  std::jthread actor([&] {
    yield_while([&] { return one.replay.stats().samplers_for_items.waiting_now == 0; });
    one.append_many(0, 1, 5.0F);
  });
  const SampleResult batch =
      require_batch(both.sample({.beta = 1.0F, .normalise = Normalise::Not}));
  EXPECT_EQ(batch->probabilities()[3], 1.0);
  EXPECT_EQ(batch->weights()[3], 1.0F);
}

TEST(MixedSampler, ReportsNothingToDrawIfAllWeightsAreZero) {
  NumberedBuffer one(options_of(1));
  NumberedBuffer other(options_of(2));
  one.append_many(0, 4, 0.0F);
  MixedSampler both({one.replay, other.replay}, 4);
  EXPECT_EQ(both.sample().status().code, Code::NothingToDraw);
  other.append_many(kOther, 4, 1.0F);
  EXPECT_TRUE(both.sample());
  MixedSampler exact({{other.replay, 2}, {one.replay, 2}});
  EXPECT_EQ(exact.sample().status().code, Code::NothingToDraw);
  EXPECT_EQ(exact.waits_for(), 1U);
}

TEST(MixedSampler, HasTheFreshItemsOfEachExactPartInThePartsFirstPlaces) {
  NumberedBuffer one(options_of(1));
  NumberedBuffer other(options_of(2));
  NumberedBuffer late(options_of(3));
  MixedSampler all({{one.replay, 8}, {other.replay, 4}, {late.replay, 2}}, {.fresh = 0.5F});
  // The first item of each buffer outweighs the others, which are drawn only while they are fresh.
  one.append(0, 1e30F);
  one.append_many(1, 2, 1e-3F);
  other.append(kOther, 1e30F);
  other.append_many(kOther + 1, 4, 1e-3F);
  ASSERT_FALSE(all.sample(kNoWait));  // The third part has no items.
  late.append(500, 1.0F);
  for (const std::size_t expected : {3U + 2U + 1U, 2U, 1U, 0U}) {
    const SampleResult batch = require_batch(all.sample(kNoWait));
    EXPECT_EQ(batch.status().fresh, expected);
    EXPECT_EQ(all.statuses()[1].fresh, expected == 1 ? 1U : expected == 0 ? 0U : 2U);
    const auto numbers = numbers_of(batch, one);
    for (std::size_t i = 3; i < 14; ++i) {
      const bool fresh_of_other = i == 8 || i == 9;
      EXPECT_TRUE(fresh_of_other || numbers[i] == (i < 8 ? 0 : i < 12 ? kOther : 500)) << i;
    }
    if (expected == 6) {
      EXPECT_EQ(std::set(numbers.begin(), numbers.begin() + 3), (std::set<std::uint64_t>{0, 1, 2}));
    }
  }
}

TEST(MixedSampler, UpdatesTheBufferOfEachKeyInAnyOrder) {
  TwoBuffers two;
  MixedSampler both({{two.first.replay, 40}, {two.second.replay, 120}, {two.first.replay, 1}});
  const SampleResult batch = require_batch(both.sample());
  // The keys of both buffers name the same rows, and differ only in their tags.
  std::vector<ItemKey> keys(batch->keys().begin(), batch->keys().end());
  auto numbers = numbers_of(batch, two.first);
  std::ranges::reverse(keys);
  std::ranges::reverse(numbers);
  std::vector<float> priorities;
  for (const std::uint64_t number : numbers) {
    priorities.push_back(number == 3 || number == kOther + 5 ? 1.0F : 0.0F);
  }
  const UpdateResult result = both.update_priorities(keys, priorities);
  EXPECT_EQ(result.applied, keys.size());
  EXPECT_EQ(result.stale, 0U);
  EXPECT_EQ(two.first.replay.stats().applied_updates, 41U);
  EXPECT_EQ(two.second.replay.stats().applied_updates, 120U);
  const SampleResult after = require_batch(both.sample());
  const auto drawn = numbers_of(after, two.first);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    EXPECT_EQ(drawn[i], i < 40 || i == 160 ? 3U : kOther + 5) << i;
  }
  // Updates one key of each part. The item of the first key was cleared.
  two.first.replay.clear();
  const UpdateResult late = both.update_priorities(std::vector{after->keys()[0], after->keys()[50]},
                                                   std::vector{4.0F, 4.0F});
  EXPECT_EQ(late.applied, 1U);
  EXPECT_EQ(late.stale, 1U);
  EXPECT_EQ(both.update_priorities({}, {}).applied, 0U);
}

TEST(MixedSampler, HasUniqueFramesIfItsOptionsSaySo) {
  TwoBuffers two;
  MixedSampler both({{two.first.replay, 3}, {two.second.replay, 2}}, {.unique_frames = true});
  const SampleResult batch = require_batch(both.sample());
  EXPECT_TRUE(batch->unique_frames());
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(batch->frames(two.first.id)[2 * i], batch->now(two.first.action)[i]);
    EXPECT_EQ(batch->frames(two.first.id)[2 * i + 1], batch->now(two.first.action)[i] + 1);
  }
}

/// Writers append and evict, and the second buffer loses all its weight and gets it back, while
/// batches of both kinds of mixture are drawn and updated.
TEST(MixedSampler, GivesWholeRowsWhileThreadsAppendAndSetPriorities) {
  constexpr std::uint64_t kFar = std::uint64_t{1} << 40U;  // The first writer does not reach this.
  NumberedBuffer one(options_of(1));
  NumberedBuffer other(options_of(2));
  Writer writer = one.replay.writer();
  Writer writer_of_other = other.replay.writer();
  one.append_many(writer, 0, 64, 1.0F);
  other.append_many(writer_of_other, kFar, 64, 1.0F);
  const auto append = [](NumberedBuffer& line, Writer& appends, std::uint64_t first) {
    return std::jthread([&line, &appends, first](std::stop_token stop) {
      for (std::uint64_t i = first; !stop.stop_requested(); ++i) {
        line.append(appends, i, 1.0F);
      }
    });
  };
  const std::jthread actor = append(one, writer, 64);
  const std::jthread other_actor = append(other, writer_of_other, kFar + 64);
  const std::jthread switcher([&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      other.replay.selector().reset(0.0F);
      other.replay.selector().reset(1.0F);
    }
  });
  MixedSampler exact({{one.replay.selector(1), 8}, {other.replay.selector(1), 8}}, {.seed = 1});
  MixedSampler common({one.replay, other.replay}, 16, {.seed = 2});
  for (std::size_t i = scaled(3'000, 100); i != 0; --i) {
    for (MixedSampler* const both : {&exact, &common}) {
      const SampleResult batch = both->sample();
      ASSERT_TRUE(batch) << batch.status().message();
      expect_whole_rows(batch, one);
      const auto numbers = numbers_of(batch, one);
      for (std::size_t k = 0; k < 16; ++k) {
        ASSERT_EQ(numbers[k] >= kFar, k >= both->counts()[0]);
        ASSERT_GT(batch->probabilities()[k], 0.0);
        ASSERT_LE(batch->weights()[k], 1.0F);
      }
      const UpdateResult result =
          both->update_priorities(batch->keys(), std::vector<float>(16, 1.0F));
      ASSERT_EQ(result.applied + result.stale, 16U);
    }
  }
}

}  // namespace
}  // namespace reprise::test
