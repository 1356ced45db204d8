#include "testing/test.hpp"

namespace reprise::test {
namespace {

Options limited_options(std::uint32_t times, std::vector<Selector> selectors) {
  return SmallOptions{.selectors = std::move(selectors), .max_times_sampled = times, .shards = 2};
}

void count(std::map<std::uint64_t, std::size_t>& counts, std::span<const std::uint64_t> ids) {
  for (const std::uint64_t id : ids) {
    ++counts[id];
  }
}

/// The draws of all three selectors count, also those of the one that `NumberedBuffer` adds.
TEST(MaxTimesSampled, EveryItemIsDrawnAsOftenAsTheLimitAllowsAndThenNoMore) {
  for (const std::uint32_t times : {1U, 3U}) {
    for (const Draws draws : {Draws::Stratified, Draws::Independent, Draws::WithoutReplacement}) {
      SCOPED_TRACE(testing::Message() << times << " times, draws " << static_cast<int>(draws));
      NumberedBuffer line(limited_options(times, {kRawProportional, MaxHeap{}}));
      line.append_many(0, 30, [&](std::uint64_t i) { return static_cast<float>(1 + i); });
      std::map<std::uint64_t, std::size_t> counts;
      std::vector<Sampler> samplers;
      for (std::size_t s = 0; s < 3; ++s) {
        samplers.push_back(line.replay.selector(s).sampler({.seed = s}));
      }
      const SampleOptions options{.draws = draws, .timeout = 0ns};
      // Batches get smaller, until not even a single item can be drawn.
      for (std::size_t n : {7U, 5U, 3U, 1U}) {
        bool drew = true;
        while (drew) {
          drew = false;
          for (Sampler& sampler : samplers) {
            if (const SampleResult batch = sampler.sample(n, options)) {
              count(counts, batch->now(line.id));
              drew = true;
            }
          }
        }
      }
      EXPECT_EQ(counts.size(), 30U);
      for (const auto& [id, drawn] : counts) {
        EXPECT_EQ(drawn, times) << "item " << id;
      }
      const SampleResult nothing = samplers[0].sample(1, options);
      ASSERT_FALSE(nothing);
      EXPECT_EQ(nothing.status().code, SampleStatus::Code::TimedOut);
      EXPECT_EQ(nothing.status().items, 0U);
      EXPECT_EQ(line.replay.size(), 30U) << "exhausted items stay";
      EXPECT_EQ(line.replay.stats().items, 0U);
      line.append(30, 1.0F);
      EXPECT_EQ(samplers[0].sample(1, options)->now(line.id)[0], 30U);
    }
  }
}

TEST(MaxTimesSampled, AnOddBatchWaitsForTheItemOfItsLastDraw) {
  NumberedBuffer line(limited_options(2, {kRawProportional}));
  Sampler sampler = line.replay.sampler();
  line.append_many(0, 2);
  const SampleStatus status = sampler.sample(5, kNoWait).status();
  EXPECT_EQ(status.code, SampleStatus::Code::TimedOut);
  EXPECT_EQ(status.needed, 3U);
  EXPECT_EQ(status.items, 2U);
  line.append(2, 1.0F);
  EXPECT_TRUE(sampler.sample(5, kNoWait));
}

}  // namespace
}  // namespace reprise::test
