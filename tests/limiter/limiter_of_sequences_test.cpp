#include "testing/test.hpp"

namespace reprise::test {
namespace {

Options sequence_options(std::uint32_t max_times_sampled, const RateLimiter& limiter) {
  return SmallOptions{.window = Sequences{.length = 4, .period = 4},
                      .selectors = {Uniform{}},
                      .max_times_sampled = max_times_sampled,
                      .rate_limiter = limiter,
                      .chunk_steps = 16};
}

TEST(LimiterOfSequences, HoldsWritersOnlyAboveTheMinimumSize) {
  const RateLimiter limiter =
      SampleToInsertRatio{.samples_per_insert = 1.0, .min_size = 3, .error_buffer = 4.0};
  // Without a limit of draws, the limiter counts steps, and lets min_size + error_buffer = 3 + 4
  // steps through. With a limit of draws it counts sequences, and lets steps through until the
  // third sequence is complete, after 12 steps.
  for (const auto& [max_times_sampled, expected] : {std::pair(0U, 7U), std::pair(1U, 12U)}) {
    NumberedBuffer line(sequence_options(max_times_sampled, limiter));
    Writer writer = line.replay.writer({.timeout = 0ns});
    std::uint64_t committed = 0;
    while (committed < 50 && line.append(writer, committed) == CommitStatus::Committed) {
      ++committed;
    }
    EXPECT_EQ(committed, expected) << "with draws limited to " << max_times_sampled;
  }
}

/// A buffer of 64 steps has room for 16 of these sequences, so a batch of 20 can never be drawn.
TEST(LimiterOfSequences, TheStatusSaysThatTheBufferIsFullIfItHasTooFewItems) {
  NumberedBuffer line(sequence_options(1, Queue{20}));
  line.append_many(0, 60);
  Sampler sampler = line.replay.sampler();
  const SampleStatus early = sampler.sample(20, kNoWait).status();
  EXPECT_FALSE(early.full);
  line.append_many(60, 60);
  const SampleStatus status = sampler.sample(20, kNoWait).status();
  EXPECT_EQ(status.code, SampleStatus::Code::TimedOut);
  EXPECT_TRUE(status.full);
  EXPECT_NE(status.message().find("16 of the 20 items that this batch needs are there; the buffer "
                                  "is full"),
            std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace reprise::test
