#include "testing/test.hpp"

namespace reprise::test {
namespace {

const SampleOptions kWithout{.draws = Draws::WithoutReplacement, .timeout = 0ns};

TEST(WithoutReplacement, SaysWhetherItemsOrWeightsAreMissing) {
  NumberedBuffer line(SmallOptions{.chunk_steps = 4, .shards = 3});
  line.append_many(0, 3, [](std::uint64_t i) { return i == 1 ? 0.0F : 1.0F; });
  Sampler sampler = line.replay.sampler();
  EXPECT_TRUE(sampler.sample(2, kWithout));
  const SampleStatus weights = sampler.sample(3, kWithout).status();
  EXPECT_EQ(weights.code, SampleStatus::Code::NothingToDraw);
  const SampleStatus items = sampler.sample(4, kWithout).status();
  EXPECT_EQ(items.code, SampleStatus::Code::TimedOut);
  EXPECT_EQ(items.needed, 4U);
  EXPECT_EQ(items.items, 3U);
}

TEST(WithoutReplacement, RefusesMoreItemsThanThereCanBe) {
  NumberedBuffer line;
  Sampler sampler = line.replay.sampler();
  EXPECT_THROW((void)sampler.sample(65, {.draws = Draws::WithoutReplacement, .timeout = {}}),
               std::invalid_argument);
  EXPECT_FALSE(sampler.sample(64, {.draws = Draws::WithoutReplacement, .timeout = {}}));
}

/// The ratio holds the writer after 42 steps.
TEST(WithoutReplacement, WritersHeldByARatioGoOnForSamplersThatLackItems) {
  NumberedBuffer line(SmallOptions{
      .rate_limiter = SampleToInsertRatio{.samples_per_insert = 1.0, .error_buffer = 40.0}});
  const std::jthread actor([&] {
    Writer writer = line.replay.writer();
    for (std::uint64_t i = 0; line.append(writer, i) != CommitStatus::Closed; ++i) {
    }
  });
  std::vector<std::jthread> samplers;
  start(samplers, 2, [&](std::size_t s) {
    Sampler sampler = line.replay.sampler();
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(sampler.sample(50 + 10 * s, {.draws = Draws::WithoutReplacement}));
    }
  });
  samplers.clear();
  line.replay.close();
}

}  // namespace
}  // namespace reprise::test
