#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <utility>

namespace reprise::test {
namespace {

Options sequence_options(std::uint32_t times, const RateLimiter& limiter) {
  return Small{.window = Sequences{.length = 4, .period = 4},
               .selectors = {Uniform{}},
               .max_times_sampled = times,
               .rate_limiter = limiter,
               .chunk_steps = 16};
}

TEST(LimiterOfSequences, CountsThoseThatMayBeDrawnWhereDrawsAreLimitedAndElseSteps) {
  constexpr SampleToInsertRatio kRatio{
      .samples_per_insert = 1.0, .min_size = 3, .error_buffer = 100.0};
  for (const RateLimiter& limiter : {RateLimiter(MinSize{3}), RateLimiter(kRatio)}) {
    Line unlimited(sequence_options(0, limiter));
    Sampler any = unlimited.replay.sampler();
    unlimited.append_many(0, 5);
    EXPECT_FALSE(any.sample(1, kAtOnce)) << "2 steps, the others are pending";
    unlimited.append_many(5, 1);
    EXPECT_TRUE(any.sample(1, kAtOnce)) << "3 steps, of one sequence";

    Line line(sequence_options(1, limiter));
    Sampler sampler = line.replay.sampler();
    std::uint64_t number = 0;
    const auto expect_items = [&](std::size_t items) {
      const SampleStatus status = sampler.sample(1, kAtOnce).status();
      EXPECT_EQ(status.code, items < 3 ? SampleStatus::Code::TimedOut : SampleStatus::Code::Ok);
      EXPECT_EQ(status.items, items);
      EXPECT_EQ(status.needed, 3U);
    };
    const auto append_sequence = [&] {
      line.append_many(number, 4);
      number += 4;
    };
    append_sequence();
    expect_items(1);
    append_sequence();
    expect_items(2);
    append_sequence();
    expect_items(3);
    expect_items(2);  // One was drawn.
    append_sequence();
    expect_items(3);
  }
}

TEST(LimiterOfSequences, HoldsWritersToARatioOnceEnoughIsThere) {
  const RateLimiter limiter =
      SampleToInsertRatio{.samples_per_insert = 1.0, .min_size = 3, .error_buffer = 4.0};
  // By the balance 3 + 4 inserts may pass; the third sequence is whole after 12.
  for (const auto& [times, expected] : {std::pair(0U, 7U), std::pair(1U, 12U)}) {
    Line line(sequence_options(times, limiter));
    Writer writer = line.replay.writer({.timeout = std::chrono::nanoseconds(0)});
    std::uint64_t committed = 0;
    while (committed < 50 && line.append(writer, committed) == CommitStatus::Committed) {
      ++committed;
    }
    EXPECT_EQ(committed, expected) << "with draws limited to " << times;
  }
}

}  // namespace
}  // namespace reprise::test
