#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"

#include <gtest/gtest.h>

namespace reprise::test {
namespace {

Options unlimited_options() {
  return Small{.rate_limiter = Unlimited{}};
}

TEST(UnlimitedLimiter, AnswersAtOnceThatAnEmptyBufferHasNothingToDraw) {
  Line line(unlimited_options());
  const SampleResult result = line.replay.sampler().sample(4);  // Without a timeout.
  EXPECT_EQ(result.status().code, SampleStatus::Code::NothingToDraw);
  EXPECT_EQ(result.status().items, 0U);
  EXPECT_EQ(result.status().needed, 0U);
  EXPECT_EQ(result.status().message(), "nothing to draw: there are no items");
  const Stats stats = line.replay.stats();
  EXPECT_EQ(stats.samplers_for_items.waits, 0U);
  EXPECT_EQ(stats.limiter, "unlimited: nobody waits");
}

TEST(UnlimitedLimiter, HoldsNobody) {
  Line line(unlimited_options());
  Sampler sampler = line.replay.sampler();
  for (std::uint64_t number = 0; number < 300; ++number) {
    ASSERT_EQ(line.append(number), CommitStatus::Committed);
    ASSERT_TRUE(sampler.sample(100));
  }
  const Stats stats = line.replay.stats();
  EXPECT_EQ(stats.writers_for_limiter.waits, 0U);
  EXPECT_EQ(stats.samplers_for_items.waits, 0U);
  EXPECT_EQ(stats.samplers_for_limiter.waits, 0U);
}

}  // namespace
}  // namespace reprise::test
