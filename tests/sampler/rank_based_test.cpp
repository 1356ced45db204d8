#include "testing/test.hpp"

namespace reprise::test {
namespace {

constexpr double kAlpha = 0.7;

TEST(RankBased, TheLargestPriorityIsThatOfAnItemThatCanBeDrawn) {
  NumberedBuffer line(SmallOptions{.selectors = {RankBased{}}, .max_times_sampled = 1});
  const auto largest = [&] { return line.replay.selector().totals().largest; };
  line.append(0, End::Terminated, std::array{9.0F});
  EXPECT_EQ(largest(), 9.0F);
  ASSERT_TRUE(as_lvalue(line.replay.sampler()).sample(1, kNoWait));
  EXPECT_EQ(largest(), 0.0F);
  line.append(1, End::Terminated, std::array{2.0F});
  EXPECT_EQ(largest(), 2.0F);
  NumberedBuffer other(SmallOptions{.selectors = {RankBased{}}});
  for (const float priority : {9.0F, 1.0F, 2.0F}) {
    other.append(0, End::Terminated, std::span(&priority, 1));
  }
  const SampleOptions without{.draws = Draws::WithoutReplacement};
  ASSERT_TRUE(as_lvalue(other.replay.sampler()).sample(2, without));
  EXPECT_EQ(other.replay.selector().totals().largest, 9.0F) << "it was only hidden for a draw";
}

class RankBasedIn : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Shards, RankBasedIn, testing::Values(1U, 4U));

TEST_P(RankBasedIn, NewItemsEnterAsTheOptionSays) {
  const auto ranked = [](InitialPriority initial) -> Options {
    return SmallOptions{
        .selectors = {RankBased{.alpha = 0.7F, .initial = initial, .initial_constant = 3.0F}},
        .shards = GetParam()};
  };
  const auto ratio = [&](InitialPriority initial) {
    NumberedBuffer line(ranked(initial));
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
  NumberedBuffer line(ranked(InitialPriority::FromCaller));
  expect_refusal([&] { line.append(0); }, {"priorit"});
}

}  // namespace
}  // namespace reprise::test
