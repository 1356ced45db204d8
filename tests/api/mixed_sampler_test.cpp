#include <reprise/reprise.hpp>

#include "../support/chi_square.hpp"
#include "../support/line.hpp"
#include "../support/refusal.hpp"
#include "../support/scale.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::test {
namespace {

using namespace std::chrono_literals;
using Code = SampleStatus::Code;

/// Steps of the second buffer have numbers from here on, so a row says which buffer it is from.
constexpr std::uint64_t kOther = 1000;

Options options_of(std::uint16_t tag, const Selector& selector = kRaw) {
  Options options = small_options();
  options.selectors = {selector};
  options.key_tag = tag;
  options.shards = 2;
  return options;
}

/// Steps 0 to 9 with priorities 1 to 10, and steps 1000 to 1029 with the priority 2.
struct Two {
  explicit Two(const Selector& selector = kRaw)
      : one(options_of(1, selector)), other(options_of(2, selector)) {
    one.append_many(writer, 0, 10, [](std::uint64_t i) { return static_cast<float>(i + 1); });
    other.append_many(other_writer, kOther, 30, 2.0F);
  }

  [[nodiscard]] std::map<std::uint64_t, float> weights() const {
    std::map<std::uint64_t, float> made;
    for (std::uint64_t i = 0; i < 10; ++i) {
      made[i] = static_cast<float>(i + 1);
    }
    for (std::uint64_t i = 0; i < 30; ++i) {
      made[kOther + i] = 2.0F;
    }
    return made;
  }
  static constexpr double kTotal = 55.0 + 60.0;

  Line one;
  Line other;
  Writer writer = one.replay.writer();
  Writer other_writer = other.replay.writer();
};

std::vector<std::uint64_t> numbers_of(const SampleResult& batch, const Line& line) {
  return {batch->now(line.action).begin(), batch->now(line.action).end()};
}

void expect_whole_rows(const SampleResult& batch, const Line& line) {
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const std::uint64_t number = batch->now(line.action)[i];
    ASSERT_EQ(batch->now(line.id)[i], number) << i;
    ASSERT_EQ(batch->next(line.id)[i], number + 1) << i;
    ASSERT_EQ(batch->returns(line.reward)[i], static_cast<float>(number)) << i;
  }
}

TEST(MixedSampler, GivesExactPartsOneBehindTheOther) {
  Two two;
  MixedSampler both({{two.one.replay, 12}, {two.other.replay, 20}, {two.one.replay, 3}});
  EXPECT_EQ(both.size(), 35U);
  for (int i = 0; i < 20; ++i) {
    const SampleResult batch = both.sample();
    ASSERT_TRUE(batch) << batch.status().message();
    ASSERT_EQ(batch->size(), 35U);
    EXPECT_EQ(batch.status().batch, 35U);
    EXPECT_EQ(std::vector(both.counts().begin(), both.counts().end()),
              (std::vector<std::size_t>{12, 20, 3}));
    expect_whole_rows(batch, two.one);
    const auto numbers = numbers_of(batch, two.one);
    for (std::size_t k = 0; k < numbers.size(); ++k) {
      EXPECT_EQ(numbers[k] >= kOther, k >= 12 && k < 32) << k;
    }
  }
  EXPECT_EQ(two.one.replay.stats().sampled_items, 20U * 15U);
  EXPECT_EQ(two.other.replay.stats().sampled_items, 20U * 20U);
}

TEST(MixedSampler, DrawsEachExactPartAsASamplerOfItsSeed) {
  Two two;
  Sampler first = two.one.replay.sampler({.seed = 5});
  Sampler second = two.other.replay.sampler({.seed = 6});
  MixedSampler both({{two.one.replay, 4}, {two.other.replay, 8}}, {.seed = 5});
  for (int i = 0; i < 20; ++i) {
    const SampleResult batch = both.sample();
    const SampleResult one = first.sample(4);
    const SampleResult other = second.sample(8);
    ASSERT_TRUE(batch && one && other);
    EXPECT_TRUE(std::ranges::equal(batch->keys().first(4), one->keys()));
    EXPECT_TRUE(std::ranges::equal(batch->keys().subspan(4), other->keys()));
  }
}

/// (N * P)^-beta of each item, by hand.
std::vector<double> raw_weights(const SampleResult& batch, double beta, const Line& line,
                                const std::map<std::uint64_t, float>& weights, bool by_total) {
  std::vector<double> made;
  for (const std::uint64_t number : numbers_of(batch, line)) {
    const double items = by_total ? 40.0 : number < kOther ? 10.0 : 30.0;
    const double total = by_total ? Two::kTotal : number < kOther ? 55.0 : 60.0;
    made.push_back(std::pow(items * double{weights.at(number)} / total, -beta));
  }
  return made;
}

void expect_weights(const SampleResult& batch, const std::vector<double>& raw, double divisor) {
  for (std::size_t i = 0; i < raw.size(); ++i) {
    EXPECT_NEAR(batch->weights()[i], raw[i] / divisor, 1e-5 * raw[i] / divisor) << i;
  }
}

TEST(MixedSampler, NormalisesTheWeightsOfExactPartsOverTheWholeBatch) {
  Two two;
  MixedSampler both({{two.one.replay, 9}, {two.other.replay, 7}}, {.seed = 3});
  for (const float beta : {0.0F, 0.4F, 1.0F}) {
    const SampleResult whole = both.sample({.beta = beta});
    ASSERT_TRUE(whole);
    const auto raw = raw_weights(whole, double{beta}, two.one, two.weights(), false);
    expect_weights(whole, raw, *std::ranges::max_element(raw));
    const SampleResult bare = both.sample({.beta = beta, .normalise = Normalise::Not});
    ASSERT_TRUE(bare);
    expect_weights(bare, raw_weights(bare, double{beta}, two.one, two.weights(), false), 1.0);
  }
}

TEST(MixedSampler, ByTheCommonTotalReportsProbabilitiesAndWeightsOfTheWhole) {
  Two two;
  MixedSampler both({two.one.replay, two.other.replay}, 40, {.seed = 3});
  const auto weights = two.weights();
  for (const Draws draws : {Draws::Stratified, Draws::Independent}) {
    for (const float beta : {0.0F, 0.4F, 1.0F}) {
      SampleOptions options{.beta = beta, .draws = draws};
      const SampleResult whole = both.sample(options);
      ASSERT_TRUE(whole);
      expect_whole_rows(whole, two.one);
      EXPECT_EQ(whole.status().batch, 40U);
      EXPECT_EQ(whole.status().items, 40U);
      EXPECT_EQ(whole.status().needed, 2U);
      const auto numbers = numbers_of(whole, two.one);
      for (std::size_t i = 0; i < 40; ++i) {
        EXPECT_NEAR(whole->probabilities()[i], double{weights.at(numbers[i])} / Two::kTotal, 1e-12);
        EXPECT_EQ(numbers[i] >= kOther, i >= both.counts()[0]);
      }
      const auto raw = raw_weights(whole, double{beta}, two.one, weights, true);
      expect_weights(whole, raw, *std::ranges::max_element(raw));
      options.normalise = Normalise::ByBuffer;
      const SampleResult by_buffer = both.sample(options);
      expect_weights(by_buffer, raw_weights(by_buffer, double{beta}, two.one, weights, true),
                     std::pow(40.0 / Two::kTotal, double{-beta}));
      options.normalise = Normalise::Not;
      const SampleResult bare = both.sample(options);
      expect_weights(bare, raw_weights(bare, double{beta}, two.one, weights, true), 1.0);
    }
  }
}

TEST(MixedSampler, ByTheCommonTotalPassesChiSquare) {
  Two two;
  const auto weights = two.weights();
  for (const Draws draws : {Draws::Stratified, Draws::Independent}) {
    // Parts of both sizes, and a batch of less than one item of the smaller share.
    for (const std::size_t n : {1U, 3U, 32U}) {
      MixedSampler both({two.one.replay, two.other.replay}, n, {.seed = 11 + n});
      std::map<std::uint64_t, std::uint64_t> drawn;
      for (std::size_t batches = scaled(64'000 / n, 2'000 / n); batches != 0; --batches) {
        const SampleResult batch = both.sample({.draws = draws});
        ASSERT_TRUE(batch);
        for (const std::uint64_t number : numbers_of(batch, two.one)) {
          ++drawn[number];
        }
      }
      std::vector<std::uint64_t> counts;
      std::vector<double> probabilities;
      for (const auto& [number, weight] : weights) {
        counts.push_back(drawn[number]);
        probabilities.push_back(double{weight} / Two::kTotal);
      }
      // Stratified draws may only be nearer to the distribution.
      EXPECT_LT(chi_square_z(counts, probabilities), 4.0) << n;
      if (draws == Draws::Independent) {
        EXPECT_GT(chi_square_z(counts, probabilities), -4.0) << n;
      }
    }
  }
}

/// Which part is drawn and where in it depend on different random numbers.
TEST(MixedSampler, ByTheCommonTotalTheFirstBatchesOfManySeedsPassChiSquare) {
  Two two;
  std::map<std::uint64_t, std::uint64_t> drawn;
  for (std::size_t seed = scaled(4'000, 1'000); seed != 0; --seed) {
    MixedSampler both({two.one.replay, two.other.replay}, 1, {.seed = 3 * seed});
    ++drawn[both.sample()->now(two.one.action)[0]];
  }
  std::vector<std::uint64_t> counts;
  std::vector<double> probabilities;
  for (const auto& [number, weight] : two.weights()) {
    counts.push_back(drawn[number]);
    probabilities.push_back(double{weight} / Two::kTotal);
  }
  EXPECT_LT(chi_square_z(counts, probabilities), 4.0);
}

TEST(MixedSampler, ByTheCommonTotalGivesStratifiedPartsTheirShareRoundedUpOrDown) {
  Two two;
  MixedSampler both({two.one.replay, two.other.replay}, 32, {.seed = 2});
  const double share = 32.0 * 55.0 / Two::kTotal;
  bool up = false;
  bool down = false;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(both.sample());
    const std::size_t own = both.counts()[0];
    EXPECT_EQ(own + both.counts()[1], 32U);
    up |= own == static_cast<std::size_t>(std::ceil(share));
    down |= own == static_cast<std::size_t>(std::floor(share));
    EXPECT_NEAR(static_cast<double>(own), share, 1.0);
  }
  EXPECT_TRUE(up && down);
  bool beyond = false;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(both.sample({.draws = Draws::Independent}));
    beyond |= std::abs(static_cast<double>(both.counts()[0]) - share) > 1.0;
  }
  EXPECT_TRUE(beyond) << "independent draws have no such bound";
}

TEST(MixedSampler, AnEpsilonOfItsOwnIsTheBonusOfDemonstrations) {
  Line agent(options_of(1, Proportional{.alpha = 0.5F, .epsilon = 0.0F}));
  Line teacher(options_of(2, Proportional{.alpha = 0.5F, .epsilon = 3.0F}));
  Writer writer = agent.replay.writer();
  Writer teachers = teacher.replay.writer();
  agent.append_many(writer, 0, 4, 1.0F);
  teacher.append_many(teachers, kOther, 2, 1.0F);
  MixedSampler both({agent.replay, teacher.replay}, 8);
  const SampleResult batch = both.sample();
  ASSERT_TRUE(batch);
  EXPECT_EQ(both.counts()[0], 4U);
  for (std::size_t i = 0; i < 8; ++i) {
    // 4 * 1^0.5 of the agent beside 2 * (1 + 3)^0.5.
    EXPECT_NEAR(batch->probabilities()[i], i < 4 ? 1.0 / 8 : 2.0 / 8, 1e-6);
  }
}

TEST(MixedSampler, ABufferWithoutWeightGivesNothingAndNobodyWaitsForIt) {
  Line empty(options_of(1));
  Two two;
  MixedSampler both({empty.replay, two.other.replay}, 6);
  for (int i = 0; i < 5; ++i) {
    const SampleResult batch = both.sample();
    ASSERT_TRUE(batch);
    EXPECT_EQ(both.counts()[0], 0U);
    EXPECT_EQ(both.counts()[1], 6U);
    for (const std::uint64_t number : numbers_of(batch, two.other)) {
      EXPECT_GE(number, kOther);
    }
  }
}

TEST(MixedSampler, WaitsForTheFirstBufferWhileNoneHasWeight) {
  Line one(options_of(1));
  Line other(options_of(2));
  MixedSampler both({one.replay, other.replay}, 4);
  const SampleResult none = both.sample({.timeout = 1ms});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.status().code, Code::TimedOut);
  EXPECT_GE(none.status().waited, 1ms);
  EXPECT_EQ(both.waits_for(), 0U);
  Writer writer = one.replay.writer();
  std::jthread actor([&] {
    yield_while([&] { return one.replay.stats().samplers_for_items.waiting_now == 0; });
    one.append_many(writer, 0, 1, 5.0F);
  });
  const SampleResult batch = both.sample({.beta = 1.0F, .normalise = Normalise::Not});
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->probabilities()[3], 1.0);
  EXPECT_EQ(batch->weights()[3], 1.0F);
}

TEST(MixedSampler, AllWeightsOfZeroAreNothingToDraw) {
  Line one(options_of(1));
  Line other(options_of(2));
  Writer writer = one.replay.writer();
  Writer writer_of_other = other.replay.writer();
  one.append_many(writer, 0, 4, 0.0F);
  MixedSampler both({one.replay, other.replay}, 4);
  EXPECT_EQ(both.sample().status().code, Code::NothingToDraw);
  other.append_many(writer_of_other, kOther, 4, 1.0F);
  EXPECT_TRUE(both.sample());
  MixedSampler exact({{other.replay, 2}, {one.replay, 2}});
  EXPECT_EQ(exact.sample().status().code, Code::NothingToDraw);
  EXPECT_EQ(exact.waits_for(), 1U);
}

TEST(MixedSampler, KeepsThePartsThatWereDrawnWhenAnotherOneEndsTheCall) {
  Two two;
  Line late(options_of(3));
  MixedSampler all({{two.one.replay, 4}, {late.replay, 2}, {two.other.replay, 3}}, {.seed = 9});
  for (int i = 0; i < 5; ++i) {
    const SampleResult none = all.sample(kAtOnce);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.status().code, Code::TimedOut);
    EXPECT_EQ(none.status().batch, 2U);
    EXPECT_EQ(all.waits_for(), 1U);
  }
  EXPECT_EQ(two.one.replay.stats().sampled_items, 4U);
  EXPECT_EQ(two.other.replay.stats().sampled_items, 0U);
  Writer writer = late.replay.writer();
  late.append_many(writer, 500, 1, 1.0F);
  Sampler first = two.one.replay.sampler({.seed = 9});
  for (int i = 0; i < 3; ++i) {
    const SampleResult batch = all.sample(kAtOnce);
    ASSERT_TRUE(batch);
    ASSERT_EQ(batch->size(), 9U);
    expect_whole_rows(batch, two.one);
    EXPECT_TRUE(std::ranges::equal(batch->keys().first(4), first.sample(4)->keys()));
    EXPECT_EQ(batch->now(late.action)[4], 500U);
    EXPECT_GE(batch->now(late.action)[6], kOther);
  }
}

TEST(MixedSampler, DrawsIntoABatchOfTheCallers) {
  Two two;
  for (const bool by_total : {false, true}) {
    const auto made = [&] {
      return by_total ? MixedSampler({two.one.replay, two.other.replay}, 12, {.seed = 5})
                      : MixedSampler({{two.one.replay, 4}, {two.other.replay, 8}}, {.seed = 5});
    };
    MixedSampler both = made();
    MixedSampler same = made();
    Batch batch = two.other.replay.make_batch(14);
    ASSERT_EQ(two.other.replay.sampler().sample_into(batch, 0, 14).code, Code::Ok);
    const std::vector<ItemKey> before(batch.keys().begin(), batch.keys().end());
    for (int i = 0; i < 5; ++i) {
      const SampleStatus status = both.sample_into(batch, {.beta = 1.0F});
      ASSERT_EQ(status.code, Code::Ok);
      EXPECT_EQ(status.batch, 12U);
      const SampleResult own = same.sample({.beta = 1.0F});
      ASSERT_TRUE(own);
      EXPECT_TRUE(std::ranges::equal(batch.keys().first(12), own->keys()));
      EXPECT_TRUE(std::ranges::equal(batch.weights().first(12), own->weights()));
      EXPECT_TRUE(std::ranges::equal(batch.probabilities().first(12), own->probabilities()));
      EXPECT_TRUE(std::ranges::equal(batch.now(two.one.id).first(12), own->now(two.one.id)));
      EXPECT_TRUE(std::ranges::equal(batch.keys().last(2), std::span(before).last(2)));
    }
  }
}

TEST(MixedSampler, KeepsInABatchOfTheCallersWhatWasDrawnAndBeginsAnewInAnotherOne) {
  Two two;
  Line late(options_of(3));
  MixedSampler all({{two.one.replay, 4}, {late.replay, 2}}, {.seed = 9});
  const auto drawn = [&] { return two.one.replay.stats().sampled_items; };
  // The memory of a batch that is gone may be that of the next one.
  std::optional<Batch> gone = two.one.replay.make_batch(6);
  ASSERT_EQ(all.sample_into(*gone, kAtOnce).code, Code::TimedOut);
  gone.reset();
  Batch first = two.one.replay.make_batch(6);
  ASSERT_EQ(all.sample_into(first, kAtOnce).code, Code::TimedOut);
  ASSERT_EQ(all.sample_into(first, kAtOnce).code, Code::TimedOut);
  EXPECT_EQ(drawn(), 8U);
  Batch full = two.one.replay.make_batch(6);
  ASSERT_EQ(two.other.replay.sampler().sample_into(full, 0, 6).code, Code::Ok);
  ASSERT_EQ(all.sample_into(full, kAtOnce).code, Code::TimedOut);
  EXPECT_EQ(drawn(), 12U);
  ASSERT_FALSE(all.sample(kAtOnce));
  EXPECT_EQ(drawn(), 16U);
  Writer writer = late.replay.writer();
  late.append_many(writer, 500, 1, 1.0F);
  ASSERT_TRUE(all.sample(kAtOnce));
  EXPECT_EQ(drawn(), 16U);
  Sampler alike = two.one.replay.sampler({.seed = 9});
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(alike.sample(4));
  }
  ASSERT_EQ(all.sample_into(first, kAtOnce).code, Code::Ok);
  EXPECT_TRUE(std::ranges::equal(first.keys().first(4), alike.sample(4)->keys()));
  EXPECT_EQ(first.now(late.action)[5], 500U);
}

TEST(MixedSampler, RefusesABatchThatHasNoPlaceForItBeforeAnythingIsDrawn) {
  Two two;
  MixedSampler both({{two.one.replay, 4}, {two.other.replay, 3}});
  Batch small = two.one.replay.make_batch(6);
  Schema schema;
  static_cast<void>(schema.observation<float>("x"));
  Batch foreign = ReplayBuffer(schema, {.capacity_steps = 10}).make_batch(7);
  expect_refusal<std::invalid_argument>([&] { static_cast<void>(both.sample_into(small)); },
                                        {"sample_into", "7", "capacity 6"});
  expect_refusal<std::invalid_argument>([&] { static_cast<void>(both.sample_into(foreign)); },
                                        {"sample_into", "another schema"});
  EXPECT_EQ(two.one.replay.stats().sampled_items, 0U);
}

TEST(MixedSampler, ByTheCommonTotalKeepsWhatItWasDrawnByAcrossAWait) {
  Options held = options_of(2);
  held.rate_limiter = MinSize{3};
  Line one(options_of(1));
  Line other(held);
  Writer writer = one.replay.writer();
  Writer writer_of_other = other.replay.writer();
  one.append_many(writer, 0, 1, 3.0F);
  other.append_many(writer_of_other, kOther, 2, 1.5F);
  MixedSampler both({one.replay, other.replay}, 8);
  ASSERT_FALSE(both.sample(kAtOnce));
  EXPECT_EQ(both.waits_for(), 1U);
  one.append_many(writer, 1, 1, 100.0F);
  other.append_many(writer_of_other, kOther + 2, 1, 3.0F);
  const SampleResult batch = both.sample({.beta = 1.0F, .normalise = Normalise::Not});
  ASSERT_TRUE(batch);
  EXPECT_EQ(both.counts()[0], 4U);
  for (std::size_t i = 0; i < 8; ++i) {
    const std::uint64_t number = batch->now(one.action)[i];
    // The shares were 3 of 6 each, and the second part has 6 in all where it is drawn.
    const double expected = number == 0 ? 0.5 : number == kOther + 2 ? 0.25 : 0.125;
    EXPECT_EQ(batch->probabilities()[i], expected) << number;
    EXPECT_NEAR(batch->weights()[i], 1.0 / (3.0 * expected), 1e-6);
  }
}

/// The second buffer loses all its weight while the call waits for the first one.
TEST(MixedSampler, ByTheCommonTotalBeginsAnewIfAPartHasLostItsWeight) {
  Options held = options_of(1);
  held.rate_limiter = MinSize{2};
  Line one(held);
  Line other(options_of(2));
  Writer writer = one.replay.writer();
  Writer writer_of_other = other.replay.writer();
  one.append_many(writer, 0, 1, 1.0F);
  other.append_many(writer_of_other, kOther, 1, 1.0F);
  MixedSampler both({one.replay, other.replay}, 4);
  const std::jthread actor([&] {
    yield_while([&] { return one.replay.stats().samplers_for_items.waiting_now == 0; });
    other.replay.reset_priorities(0.0F);
    one.append_many(writer, 1, 1, 1.0F);
  });
  const SampleResult batch = both.sample();
  ASSERT_TRUE(batch) << batch.status().message();
  EXPECT_EQ(both.counts()[0], 4U);
  EXPECT_EQ(batch->probabilities()[0], 0.5);
}

TEST(MixedSampler, OfAClosedOrDestroyedBufferIsClosed) {
  for (const bool by_total : {false, true}) {
    auto one = std::make_unique<Line>(options_of(1));
    auto other = std::make_unique<Line>(options_of(2));
    Writer writer = one->replay.writer();
    Writer writer_of_other = other->replay.writer();
    one->append_many(writer, 0, 4);
    other->append_many(writer_of_other, kOther, 4);
    const auto both =
        by_total
            ? std::make_unique<MixedSampler>(
                  std::vector<std::reference_wrapper<ReplayBuffer>>{one->replay, other->replay}, 4)
            : std::make_unique<MixedSampler>(
                  std::vector<MixedPart>{{one->replay, 2}, {other->replay, 2}});
    ASSERT_TRUE(both->sample());
    other->replay.close();
    EXPECT_EQ(both->sample().status().code, Code::Closed);
    EXPECT_EQ(both->waits_for(), 1U);
    one.reset();
    other.reset();
    EXPECT_EQ(both->sample().status().code, Code::Closed);
  }
}

TEST(MixedSampler, ARequestToStopEndsTheWaitOfAnyPart) {
  Two two;
  Line empty(options_of(3));
  MixedSampler both({{two.one.replay, 2}, {empty.replay, 2}});
  std::stop_source stop;
  std::jthread stopper([&] {
    yield_while([&] { return empty.replay.stats().samplers_for_items.waiting_now == 0; });
    stop.request_stop();
  });
  EXPECT_EQ(both.sample({.stop = stop.get_token()}).status().code, Code::Stopped);
}

TEST(MixedSampler, MakesAPassOfEachPart) {
  Two two;
  MixedSampler both({{two.one.replay, 5}, {two.other.replay, 5}});
  std::map<std::uint64_t, int> seen;
  for (int i = 0; i < 6; ++i) {
    const SampleResult batch = both.sample({.beta = 1.0F, .draws = Draws::Epoch});
    ASSERT_TRUE(batch);
    for (const std::uint64_t number : numbers_of(batch, two.one)) {
      ++seen[number];
    }
    EXPECT_EQ(batch.status().passes, i == 5 ? 1U : 0U) << "the longest pass counts";
    EXPECT_EQ(both.statuses()[0].passes, i == 5 ? 3U : i >= 3 ? 2U : i >= 1 ? 1U : 0U);
    EXPECT_EQ(both.statuses()[1].passes, i == 5 ? 1U : 0U);
    EXPECT_TRUE(std::ranges::all_of(batch->weights(), [](float weight) { return weight == 1.0F; }));
  }
  EXPECT_EQ(seen.size(), 40U);
  for (const auto& [number, times] : seen) {
    EXPECT_EQ(times, number < kOther ? 3 : 1) << number;
  }
}

TEST(MixedSampler, GivesTheFreshItemsOfEachExactPartInItsFirstPlaces) {
  Line one(options_of(1));
  Line other(options_of(2));
  Line late(options_of(3));
  MixedSampler all({{one.replay, 8}, {other.replay, 4}, {late.replay, 2}}, {.fresh = 0.5F});
  Writer writer = one.replay.writer();
  Writer writer_of_other = other.replay.writer();
  Writer writer_of_late = late.replay.writer();
  // One item outweighs all others, so that no other is drawn by weight.
  one.append(writer, 0, 1e30F);
  one.append_many(writer, 1, 2, 1e-3F);
  other.append(writer_of_other, kOther, 1e30F);
  other.append_many(writer_of_other, kOther + 1, 4, 1e-3F);
  ASSERT_FALSE(all.sample(kAtOnce));
  late.append(writer_of_late, 500, 1.0F);
  for (const std::size_t expected : {3U + 2U + 1U, 2U, 1U, 0U}) {
    const SampleResult batch = all.sample(kAtOnce);
    ASSERT_TRUE(batch);
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

TEST(MixedSampler, UpdatesTheBufferOfEachKeyInAnySequence) {
  Two two;
  MixedSampler both({{two.one.replay, 40}, {two.other.replay, 120}, {two.one.replay, 1}});
  const SampleResult batch = both.sample();
  ASSERT_TRUE(batch);
  // The keys of both buffers name the same rows, so the tag alone tells them apart.
  std::vector<ItemKey> keys(batch->keys().begin(), batch->keys().end());
  auto numbers = numbers_of(batch, two.one);
  std::ranges::reverse(keys);
  std::ranges::reverse(numbers);
  std::vector<float> priorities;
  for (const std::uint64_t number : numbers) {
    priorities.push_back(number == 3 || number == kOther + 5 ? 1.0F : 0.0F);
  }
  const UpdateResult result = both.update_priorities(keys, priorities);
  EXPECT_EQ(result.applied, keys.size());
  EXPECT_EQ(result.stale, 0U);
  EXPECT_EQ(two.one.replay.stats().applied_updates, 41U);
  EXPECT_EQ(two.other.replay.stats().applied_updates, 120U);
  const SampleResult after = both.sample();
  ASSERT_TRUE(after);
  const auto drawn = numbers_of(after, two.one);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    EXPECT_EQ(drawn[i], i < 40 || i == 160 ? 3U : kOther + 5) << i;
  }
  // A part of them alone, and those of an item that is gone.
  two.one.replay.clear();
  const UpdateResult late = both.update_priorities(std::vector{after->keys()[0], after->keys()[50]},
                                                   std::vector{4.0F, 4.0F});
  EXPECT_EQ(late.applied, 1U);
  EXPECT_EQ(late.stale, 1U);
  EXPECT_EQ(both.update_priorities({}, {}).applied, 0U);
}

TEST(MixedSampler, RefusesAnUpdateBeforeAnyBufferIsChanged) {
  Two two;
  MixedSampler both({{two.one.replay, 2}, {two.other.replay, 2}});
  const SampleResult batch = both.sample();
  ASSERT_TRUE(batch);
  std::vector<ItemKey> keys(batch->keys().begin(), batch->keys().end());
  std::vector<float> priorities(4, 1.0F);
  const auto refused = [&](std::initializer_list<std::string_view> words) {
    expect_refusal<std::invalid_argument>(
        [&] { static_cast<void>(both.update_priorities(keys, priorities)); }, words);
    EXPECT_EQ(two.one.replay.stats().applied_updates, 0U);
    EXPECT_EQ(two.other.replay.stats().applied_updates, 0U);
  };
  priorities[3] = -1.0F;
  refused({"MixedSampler::update_priorities", "priorities[3]", "-1"});
  priorities.pop_back();
  refused({"4 keys", "3 priorities", "equal counts"});
  priorities.push_back(1.0F);
  const ItemKey good = keys[3];
  keys[3] = ItemKey::make(good.slot(), good.generation(), 3);
  refused({"keys[3]", "tag 3", "of the parts"});
  keys[3] = ItemKey::make(std::numeric_limits<std::uint32_t>::max(), 0, 2);
  refused({"MixedSampler::update_priorities", "tag 2"});
  keys[3] = good;
  EXPECT_EQ(both.update_priorities(keys, priorities).applied, 4U);

  Line twin(options_of(1));
  MixedSampler twins({{two.one.replay, 2}, {twin.replay, 2}});
  expect_refusal<std::invalid_argument>([&] { static_cast<void>(twins.update_priorities({}, {})); },
                                        {"parts[0] and parts[1]", "key_tag 1", "whole batch"});
}

TEST(MixedSampler, UpdatesBuffersThatShareATagByThePlacesOfExactParts) {
  Two two;
  Line twin(options_of(1));
  Writer writer = twin.replay.writer();
  twin.append_many(writer, 500, 10, 1.0F);
  MixedSampler all({{two.one.replay, 40}, {two.other.replay, 9}, {twin.replay, 60}});
  const SampleResult batch = all.sample();
  ASSERT_TRUE(batch);
  std::vector<ItemKey> keys(batch->keys().begin(), batch->keys().end());
  std::vector<float> priorities;
  for (const std::uint64_t number : numbers_of(batch, two.one)) {
    priorities.push_back(number == 3 || number == 505 ? 1.0F : 0.0F);
  }
  EXPECT_EQ(all.update_priorities(keys, priorities).applied, 109U);
  EXPECT_EQ(two.one.replay.stats().applied_updates, 40U);
  EXPECT_EQ(twin.replay.stats().applied_updates, 60U);
  for (MixedPart part : {MixedPart{two.one.replay, 3}, MixedPart{twin.replay, 505}}) {
    Sampler sampler = part.buffer.sampler();
    EXPECT_EQ(sampler.sample(1)->now(two.one.action)[0], part.items);
  }
  std::swap(keys[0], keys[40]);
  for (const std::size_t count : {109U, 108U}) {
    expect_refusal<std::invalid_argument>(
        [&] {
          const std::span<const float> values(priorities);
          static_cast<void>(
              all.update_priorities(std::span(keys).first(count), values.first(count)));
        },
        {"MixedSampler::update_priorities", count == 109 ? "keys[0] has tag 2" : "key_tag 1"});
  }
  EXPECT_EQ(two.one.replay.stats().applied_updates, 40U);
  MixedSampler common({two.one.replay, twin.replay}, 2);
  expect_refusal<std::invalid_argument>(
      [&] {
        static_cast<void>(common.update_priorities(std::span(keys).first(2), {{1.0F, 1.0F}}));
      },
      {"key_tag 1", "exact parts"});
}

template <class... Arguments>
void refuses(std::initializer_list<std::string_view> words, Arguments&&... arguments) {
  expect_refusal<std::invalid_argument>([&] { const MixedSampler made(arguments...); }, words);
}

TEST(MixedSampler, RefusesPartsThatDoNotFit) {
  using Parts = std::vector<MixedPart>;
  using Buffers = std::vector<std::reference_wrapper<ReplayBuffer>>;
  Two two;
  ReplayBuffer& one = two.one.replay;
  Options longer = options_of(3);
  longer.window = Transitions{.n_step = 3};
  Line window(longer);
  Schema schema;
  static_cast<void>(schema.observation<float>("x"));
  ReplayBuffer foreign(schema, {.capacity_steps = 10});
  refuses({"no parts"}, Parts{});
  refuses({"no parts"}, Buffers{}, std::size_t{1});
  refuses({"0 items", "at least 1"}, Parts{{one, 1}, {one, 0}});
  refuses({"0 items", "at least 1"}, Buffers{one}, std::size_t{0});
  refuses({"parts[1]", "another window"}, Parts{{one, 1}, {window.replay, 1}});
  refuses({"parts[1]", "another schema"}, Buffers{one, foreign}, std::size_t{1});
  refuses({"selector is 2", "0 to 1"}, Parts{{one, 1}}, SamplerOptions{.selector = 2});
  refuses({"resume is 1", "MixedSampler"}, Parts{{one, 1}}, SamplerOptions{.resume = 1});
  refuses({"parts[0]", "twice"}, Buffers{one, one}, std::size_t{1});
  refuses({"fresh is 0.5", "common total: 0"}, Buffers{one}, std::size_t{1},
          SamplerOptions{.fresh = 0.5F});
  Options limited = options_of(4);
  limited.max_times_sampled = 2;
  Line counted(limited);
  refuses({"parts[1]", "max_times_sampled 2"}, Buffers{one, counted.replay}, std::size_t{1});
  for (const Selector& selector :
       {Selector(Fifo{}), Selector(RankBased{}), Selector(Recency{}), Selector(Mixture{})}) {
    Line other(options_of(5, selector));
    refuses({"parts[1]", "weights"}, Buffers{one, other.replay}, std::size_t{1});
    EXPECT_NO_THROW(MixedSampler({{one, 1}, {other.replay, 1}}));
  }
}

TEST(MixedSampler, RefusesOptionsBeforeAnythingIsDrawn) {
  Two two;
  Options small = options_of(3);
  small.capacity_steps = 20;
  Line other(small);
  Writer writer = other.replay.writer();
  other.append_many(writer, kOther, 20);
  MixedSampler exact({{two.one.replay, 2}, {other.replay, 30}});
  MixedSampler common({two.one.replay, other.replay}, 30);
  const auto refused = [&](MixedSampler& both, const SampleOptions& options,
                           std::initializer_list<std::string_view> words) {
    expect_refusal<std::invalid_argument>([&] { static_cast<void>(both.sample(options)); }, words);
    EXPECT_EQ(two.one.replay.stats().sampled_items, 0U);
  };
  refused(exact, {.normalise = Normalise::ByBuffer}, {"ByBuffer", "exact parts"});
  refused(exact, {.draws = Draws::WithoutReplacement}, {"30 different items", "20"});
  for (MixedSampler* const both : {&exact, &common}) {
    refused(*both, {.beta = 2.0F}, {"beta is 2"});
    refused(*both, {.timeout = -1ns}, {"timeout is -1"});
  }
  refused(common, {.draws = Draws::WithoutReplacement}, {"Stratified and Independent"});
  refused(common, {.draws = Draws::Epoch}, {"Stratified and Independent"});
}

TEST(MixedSampler, ScalesTheWeightsOfASingleExactPartByItsBuffer) {
  Two two;
  MixedSampler one({{two.one.replay, 4}});
  const SampleResult batch = one.sample({.beta = 1.0F, .normalise = Normalise::ByBuffer});
  ASSERT_TRUE(batch);
  for (std::size_t i = 0; i < 4; ++i) {
    // The largest weight is that of the item with 1 of the 55.
    EXPECT_NEAR(batch->weights()[i], 1.0 / (55.0 * batch->probabilities()[i]), 1e-5);
  }
}

TEST(MixedSampler, FillsMemoryAndFramesAsItsOptionsSay) {
  Two two;
  MixedSampler both({{two.one.replay, 3}, {two.other.replay, 2}}, {.unique_frames = true});
  const SampleResult batch = both.sample();
  ASSERT_TRUE(batch);
  EXPECT_TRUE(batch->unique_frames());
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(batch->frames(two.one.id)[2 * i], batch->now(two.one.action)[i]);
    EXPECT_EQ(batch->frames(two.one.id)[2 * i + 1], batch->now(two.one.action)[i] + 1);
  }
}

/// Writers append and evict, and the second buffer loses all its weight and gets it back, while
/// both kinds of batch are drawn and updated.
TEST(MixedSampler, GivesWholeRowsBesideWritersAndUpdates) {
  constexpr std::uint64_t kFar = std::uint64_t{1} << 40U;  // No writer counts as far.
  Line one(options_of(1));
  Line other(options_of(2));
  Writer writer = one.replay.writer();
  Writer writer_of_other = other.replay.writer();
  one.append_many(writer, 0, 64, 1.0F);
  other.append_many(writer_of_other, kFar, 64, 1.0F);
  const auto act = [](Line& line, Writer& into, std::uint64_t first) {
    return std::jthread([&line, &into, first](std::stop_token stop) {
      for (std::uint64_t i = first; !stop.stop_requested(); ++i) {
        line.append(into, i, 1.0F);
      }
    });
  };
  const std::jthread actor = act(one, writer, 64);
  const std::jthread other_actor = act(other, writer_of_other, kFar + 64);
  const std::jthread switcher([&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      other.replay.reset_priorities(0.0F);
      other.replay.reset_priorities(1.0F);
    }
  });
  MixedSampler exact({{one.replay, 8}, {other.replay, 8}}, {.seed = 1, .selector = 1});
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
