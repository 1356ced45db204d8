#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// The parameter is the number of shards.
class InitialPriorities : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Shards, InitialPriorities, testing::Values(1U, 3U));

TEST_P(InitialPriorities, FromTheCallerAreRequired) {
  NumberedBuffer line(
      SmallOptions{.selectors = {Proportional{
                       .alpha = 1.0F, .epsilon = 0.0F, .initial = InitialPriority::FromCaller}},
                   .shards = GetParam()});
  expect_refusal([&] { line.append(0); }, {"priorit"});
  EXPECT_EQ(line.replay.stats().committed_steps, 0U);
  line.append(0, 1.0F);
  line.append(1, 5.0F);
  EXPECT_DOUBLE_EQ(line.probabilities().at(1), 5.0 / 6.0);
}

TEST_P(InitialPriorities, FromTheCallerAreNotRequiredOfAStepThatCompletesNoWindow) {
  NumberedBuffer line(
      SmallOptions{.window = Transitions{.n_step = 3},
                   .selectors = {Proportional{.initial = InitialPriority::FromCaller}},
                   .shards = GetParam()});
  EXPECT_EQ(line.append(0), CommitStatus::Committed);
  EXPECT_EQ(line.append(1), CommitStatus::Committed);
  EXPECT_THROW((void)line.append(2), std::invalid_argument);
  const std::array<float, 3> priorities = {1, 2, 3};
  EXPECT_EQ(line.append(2, End::Truncated, priorities), CommitStatus::Committed);
  EXPECT_EQ(line.replay.size(), 3U);
}

}  // namespace
}  // namespace reprise::test
