#include "testing/fixtures/not_finite.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

using Probabilities = std::map<std::uint64_t, double>;

/// A buffer of four items with the priorities 1, 2, 3 and 4. The parameter is the number of shards.
class Priorities : public testing::TestWithParam<std::size_t> {
 protected:
  Priorities() : line_(options()), writer_(line_.replay.writer()) {
    line_.append_many(writer_, 0, 4, [&](std::uint64_t i) { return static_cast<float>(i + 1); });
    keys_ = line_.key_list();
  }

  static Options options() { return SmallOptions{.chunk_steps = 2, .shards = GetParam()}; }

  void expect_weights(const std::array<double, 4>& weights) {
    const double total = weights[0] + weights[1] + weights[2] + weights[3];
    const Probabilities probabilities = line_.probabilities();
    for (std::uint64_t i = 0; i < 4; ++i) {
      const auto drawn = probabilities.find(i);
      const double probability = drawn == probabilities.end() ? 0.0 : drawn->second;
      EXPECT_NEAR(probability, weights[i] / total, 1e-13) << "item " << i;
    }
  }

  UpdateResult update(const std::vector<ItemKey>& keys, const std::vector<float>& priorities) {
    return line_.replay.update_priorities(keys, priorities);
  }

  NumberedBuffer line_;
  Writer writer_;
  std::vector<ItemKey> keys_;
};

INSTANTIATE_TEST_SUITE_P(Shards, Priorities, testing::Values(1U, 2U));

TEST_P(Priorities, OfWhichOneIsBadAreRefusedAndChangeNothing) {
  for (const float bad : {kNaN, kInfinity, -kInfinity, -1.0F}) {
    for (std::size_t place = 0; place < 4; ++place) {
      SCOPED_TRACE(testing::Message() << bad << " at " << place);
      std::vector<float> priorities = {50, 60, 70, 80};
      priorities[place] = bad;
      expect_refusal([&] { update(keys_, priorities); }, {"priorit", std::to_string(place)});
      expect_weights({1, 2, 3, 4});
    }
  }
  EXPECT_EQ(line_.replay.stats().applied_updates, 0U);
}

TEST_P(Priorities, OfAnotherNumberThanTheKeysAreRefused) {
  expect_refusal([&] { update(keys_, {1, 2, 3}); }, {"4", "3"});
  expect_refusal([&] { update({keys_[0]}, {}); }, {"1", "0"});
  expect_weights({1, 2, 3, 4});
}

TEST_P(Priorities, AnUnknownSelectorIsRefused) {
  const float one = 1.0F;
  expect_refusal(
      [&] { line_.replay.selector(2).update(std::span(keys_).first(1), std::span(&one, 1)); },
      {"selector", "2"});
}

TEST_P(Priorities, KeysOfAnotherBufferAreRefusedByTheirTag) {
  Options other_options = options();
  other_options.key_tag = 8;
  NumberedBuffer other(other_options);
  other.append(0);
  const ItemKey foreign = other.keys().at(0);
  expect_refusal([&] { update({keys_[0], foreign}, {50, 60}); }, {"key", "1"});
  expect_weights({1, 2, 3, 4});
  EXPECT_EQ(line_.replay.stats().applied_updates, 0U);
}

TEST_P(Priorities, KeysThatNameNoSlotAreStaleOrRefusedButNeverApplied) {
  const ItemKey beyond = ItemKey::make(0xffffffffU, 0, 7);
  const ItemKey future = ItemKey::make(keys_[0].slot(), keys_[0].generation() + 1, 7);
  EXPECT_EQ(update({future, keys_[0]}, {50, 1}).stale, 1U);
  try {
    EXPECT_EQ(update({beyond}, {50}).applied, 0U);
  } catch (const std::invalid_argument&) {
  }
  expect_weights({1, 2, 3, 4});
}

TEST_P(Priorities, WhoseWeightIsInfiniteAreRefused) {
  Options steep = options();
  steep.selectors = {Proportional{.alpha = 8.0F, .epsilon = 0.0F}};
  NumberedBuffer line(steep);
  line.append(0, 2.0F);
  const ItemKey key = line.keys().at(0);
  EXPECT_THROW(line.update(key, 1e6F), std::invalid_argument);
  EXPECT_EQ(line.probabilities(), (Probabilities{{0, 1.0}}));
}

TEST_P(Priorities, FromTheSmallestNormalFloatToTheLargestKeepTheirRatio) {
  const float smallest = std::numeric_limits<float>::min();
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(update(keys_, {smallest, smallest, 2.0F * smallest, 0.0F}).applied, 4U);
  expect_weights({1, 1, 2, 0});
  EXPECT_EQ(update(keys_, {largest, largest, largest, largest}).applied, 4U);
  expect_weights({1, 1, 1, 1});
  EXPECT_EQ(update(keys_, {1, 2, 3, 4}).applied, 4U);
  expect_weights({1, 2, 3, 4});
}

TEST(PrioritiesOfSeveralSelectors, AreIndependentOverTheSameItems) {
  NumberedBuffer line(
      SmallOptions{.selectors = {kRawProportional, Proportional{.alpha = 2.0F, .epsilon = 0.0F}}});
  line.append_many(0, 3, [&](std::uint64_t i) { return static_cast<float>(i + 1); });
  const auto expect = [&](std::size_t selector, std::vector<double> weights) {
    const Probabilities probabilities = line.probabilities(4096, selector);
    ASSERT_EQ(probabilities.size(), weights.size());
    double total = 0.0;
    for (const double weight : weights) {
      total += weight;
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      EXPECT_NEAR(probabilities.at(i), weights[i] / total, 1e-13);
    }
  };
  expect(0, {1, 2, 3});
  expect(1, {1, 4, 9});
  expect(2, {1, 1, 1});
  const auto by_number = line.keys();
  const std::vector<ItemKey> keys = {by_number.at(0), by_number.at(1), by_number.at(2)};
  const std::vector<float> priorities = {5, 5, 10};
  line.replay.selector(1).update(keys, priorities);
  expect(0, {1, 2, 3});
  expect(1, {25, 25, 100});
  EXPECT_EQ(line.replay.selector(2).update(keys, priorities).applied, 3U)
      << "Uniform checks priorities and ignores them";
  expect(2, {1, 1, 1});
  const std::vector<float> bad = {5, -5, 10};
  EXPECT_THROW(line.replay.selector(2).update(keys, bad), std::invalid_argument);
}

}  // namespace
}  // namespace reprise::test
