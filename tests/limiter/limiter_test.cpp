#include "testing/test.hpp"

namespace reprise::test {
namespace {

constexpr SampleToInsertRatio kRatio{
    .samples_per_insert = 2.0, .min_size = 10, .error_buffer = 100.0};

/// A generous bound of the block of inserts that a writer books at a time, which is at most 64.
constexpr std::uint64_t kBlockBound = 256;

Options ratio_options(const SampleToInsertRatio& ratio = kRatio) {
  return SmallOptions{.capacity_steps = 20000, .rate_limiter = ratio, .chunk_steps = 64};
}

TEST(Limiters, WakeASleepingSamplerAtTheStepThatMakesItsItemsEnough) {
  for (std::size_t repeat = 0; repeat < 100; ++repeat) {
    const bool queue = repeat % 4 < 2;
    NumberedBuffer line(
        SmallOptions{.max_times_sampled = 1'000'000,
                     .rate_limiter = queue ? RateLimiter(Queue{20}) : RateLimiter(MinSize{20}),
                     .shards = 1 + repeat % 3});
    std::jthread learner([&] {
      const SampleResult batch = as_lvalue(line.replay.sampler()).sample(queue ? 20 : 8);
      EXPECT_TRUE(batch) << batch.status().message();
    });
    Writer writer = line.replay.writer();
    if (repeat % 2 == 0) {
      yield_while([&] { return line.replay.stats().samplers_for_items.waiting_now == 0; });
    }
    line.append_many(writer, 0, 20);
    // The writer still exists, so its steps have woken the sampler, and not its destruction.
    learner.join();
  }
}

TEST(UnlimitedLimiter, AnswersAtOnceThatAnEmptyBufferHasNothingToDraw) {
  NumberedBuffer line(SmallOptions{.rate_limiter = Unlimited{}});
  const SampleStatus status =
      // The call has no timeout, so a wait would never end.
      as_lvalue(line.replay.sampler()).sample(4).status();
  EXPECT_EQ(status.code, SampleStatus::Code::NothingToDraw);
  EXPECT_EQ(status.items, 0U);
  EXPECT_EQ(status.needed, 0U);
  EXPECT_EQ(status.message(), "nothing to draw: there are no items");
  const Stats stats = line.replay.stats();
  EXPECT_EQ(stats.samplers_for_items.waits, 0U);
  EXPECT_EQ(stats.limiter, "unlimited: nobody waits");
}

TEST(RatioLimiter, HoldsAWriterThatIsAheadUntilItemsAreSampled) {
  NumberedBuffer line(ratio_options());
  Writer writer = line.replay.writer({.timeout = 2ms});
  const std::uint64_t committed = line.append_until_held(writer);
  // The balance reaches -error_buffer when 2 * (inserts - 10) = 100, so after 60 inserts.
  EXPECT_GE(committed, 60U - 1);
  EXPECT_LE(committed, 60U + kBlockBound);
  EXPECT_EQ(line.replay.stats().committed_steps, committed);
  EXPECT_EQ(line.replay.size(), committed);
  EXPECT_EQ(writer.commit(), CommitStatus::TimedOut) << "the repeated commit of the held step";
  EXPECT_EQ(line.replay.stats().committed_steps, committed);
  EXPECT_EQ(writer.now(line.action), committed) << "the held step is still in the writer's memory";
  expect_steps_add_up(line.replay);

  const Stats held = line.replay.stats();
  EXPECT_GE(held.writers_for_limiter.waits, 2U);
  EXPECT_GE(held.writers_for_limiter.timeouts, 2U);
  EXPECT_GE(held.writers_for_limiter.total, 2ms);
  EXPECT_FALSE(held.limiter.empty());

  Sampler sampler = line.replay.sampler();
  // Two samples per insert restore the balance.
  for (std::uint64_t drawn = 0; drawn <= 2 * committed; drawn += 50) {
    ASSERT_TRUE(sampler.sample(50, kNoWait));
  }
  EXPECT_EQ(writer.commit(), CommitStatus::Committed);
  EXPECT_EQ(line.replay.stats().committed_steps, committed + 1);
  EXPECT_EQ(line.append(writer, committed + 1), CommitStatus::Committed);
  EXPECT_EQ(line.replay.size(), committed + 2) << "nothing lost, nothing doubled";
  line.replay.close();
  expect_steps_add_up(line.replay);
}

TEST(RatioLimiter, HoldsASamplerThatIsAheadAndSaysWhy) {
  NumberedBuffer line(ratio_options());
  Writer writer = line.replay.writer({.timeout = 0ns});
  line.append_many(writer, 0, 40);
  Sampler sampler = line.replay.sampler();
  std::uint64_t drawn = 0;
  SampleResult result = sampler.sample(10, kNoWait);
  while (result && drawn < 100000) {
    drawn += 10;
    result = sampler.sample(10, kNoWait);
  }
  // The balance reaches error_buffer when samples = 100 + 2 * (40 - 10).
  EXPECT_LE(drawn, 160U);
  EXPECT_GE(drawn, 150U);
  EXPECT_EQ(result.status().code, SampleStatus::Code::TimedOut);
  EXPECT_TRUE(result.status().held_by_ratio);
  EXPECT_EQ(result.status().items, 40U);
  EXPECT_NE(result.status().message().find("insert"), std::string::npos)
      << result.status().message();
  EXPECT_GE(line.replay.stats().samplers_for_limiter.timeouts +
                line.replay.stats().samplers_for_limiter.waits,
            1U);
  line.append_many(writer, 40, 50);
  EXPECT_TRUE(sampler.sample(10, kNoWait)) << "inserts let it go on";
}

TEST(RatioLimiter, RefusesABatchThatCouldNeverBeAdmitted) {
  NumberedBuffer line(ratio_options());
  Sampler sampler = line.replay.sampler();
  expect_refusal([&] { (void)sampler.sample(10000, kNoWait); }, {"10000", "error_buffer"});
}

}  // namespace
}  // namespace reprise::test
