#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"
#include "testing/fixtures/refusal.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <stdexcept>

namespace reprise::test {
namespace {

/// A buffer in which weights are priorities, so that what new items got can be read back.
class InitialPriorities : public testing::TestWithParam<std::size_t> {
 protected:
  void make(InitialPriority initial, std::size_t capacity = 64, float constant = 1.0F) {
    Options options = small_options();
    options.capacity_steps = capacity;
    options.shards = GetParam();
    options.chunk_steps = 2;
    options.selectors = {Proportional{
        .alpha = 1.0F, .epsilon = 0.0F, .initial = initial, .initial_constant = constant}};
    line_.emplace(options);
    writer_.emplace(line_->replay.writer());
  }

  /// Appends the next number without a priority and ingests it.
  std::uint64_t append() {
    line_->append(*writer_, next_);
    (void)line_->replay.size();
    return next_++;
  }
  std::uint64_t append(float priority) {
    line_->append(*writer_, next_, priority);
    (void)line_->replay.size();
    return next_++;
  }
  void update(std::uint64_t number, float priority) {
    ASSERT_EQ(line_->update(line_->keys().at(number), priority).applied, 1U);
  }
  /// How many times as likely as the other an item is.
  double ratio(std::uint64_t number, std::uint64_t other) {
    const auto probabilities = line_->probabilities(1 << 16);
    return probabilities.at(number) / probabilities.at(other);
  }

  std::optional<Line> line_;
  std::optional<Writer> writer_;
  std::uint64_t next_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Shards, InitialPriorities, testing::Values(1U, 3U));

TEST_P(InitialPriorities, AreTheMaximumInTheBufferNotAboveNorBelow) {
  make(InitialPriority::MaximumInBuffer);
  const std::uint64_t half = append(0.5F);
  const std::uint64_t after_half = append();
  EXPECT_DOUBLE_EQ(ratio(after_half, half), 1.0) << "a maximum below 1 counts as it is";
  update(half, 4.0F);
  const std::uint64_t after_four = append();
  EXPECT_DOUBLE_EQ(ratio(after_four, half), 1.0);
  append(8.0F);
  const std::uint64_t after_eight = append();
  EXPECT_DOUBLE_EQ(ratio(after_eight, half), 2.0);
}

TEST_P(InitialPriorities, AreTheHighestEverSeenAlsoWhenItIsGone) {
  make(InitialPriority::HighestSeen, 12);
  const std::uint64_t spike = append(16.0F);
  update(spike, 1.0F);
  std::uint64_t last = 0;
  for (int i = 0; i < 40; ++i) {
    last = append(2.0F);
  }
  EXPECT_DOUBLE_EQ(ratio(append(), last), 8.0);
  update(last, 64.0F);
  const std::uint64_t two = append(2.0F);
  EXPECT_DOUBLE_EQ(ratio(append(), two), 32.0) << "updates count as seen";
}

TEST_P(InitialPriorities, FromTheCallerAreRequired) {
  make(InitialPriority::FromCaller);
  expect_refusal<std::invalid_argument>([&] { append(); }, {"priorit"});
  EXPECT_EQ(line_->replay.stats().committed_steps, 0U);
  const std::uint64_t one = append(1.0F);
  const std::uint64_t five = append(5.0F);
  EXPECT_DOUBLE_EQ(ratio(five, one), 5.0);
}

TEST_P(InitialPriorities, FromTheCallerAreNotAskedForWhereNothingIsDecided) {
  Options options = small_options();
  options.window = Transitions{.n_step = 3};
  options.shards = GetParam();
  options.selectors = {Proportional{.initial = InitialPriority::FromCaller}};
  Line line(options);
  Writer writer = line.replay.writer();
  EXPECT_EQ(line.append(writer, 0), CommitStatus::Committed);
  EXPECT_EQ(line.append(writer, 1), CommitStatus::Committed);
  EXPECT_THROW((void)line.append(writer, 2), std::invalid_argument);
  const std::array<float, 3> priorities = {1, 2, 3};
  EXPECT_EQ(line.append(writer, 2, End::Truncated, priorities), CommitStatus::Committed);
  EXPECT_EQ(line.replay.size(), 3U);
}

TEST_P(InitialPriorities, OfItemsThatEnterTogetherAreAllTheMaximumBefore) {
  Options options = small_options();
  options.window = Transitions{.n_step = 4};
  options.shards = GetParam();
  Line line(options);
  Writer writer = line.replay.writer();
  const float six = 6.0F;
  line.append(writer, 0, End::Terminated, std::span(&six, 1));
  (void)line.replay.size();
  for (std::uint64_t i = 1; i < 4; ++i) {
    line.append(writer, i, i == 3 ? End::Terminated : End::Continue);
  }
  const auto probabilities = line.probabilities();
  ASSERT_EQ(probabilities.size(), 4U);
  for (const auto& [number, probability] : probabilities) {
    EXPECT_NEAR(probability, 0.25, 1e-14) << number;
  }
}

}  // namespace
}  // namespace reprise::test
