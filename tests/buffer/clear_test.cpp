#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

Options three_shards() {
  return SmallOptions{.shards = 3};
}

TEST(Clear, LetsWritersThatAQueueHoldsGoOnAsRemovalsDo) {
  for (const bool removes : {false, true}) {
    NumberedBuffer line(SmallOptions{.max_times_sampled = 1,
                                     .episode_index = true,
                                     .rate_limiter = Queue{.size = 8},
                                     .shards = 3});
    std::atomic<int> committed = 0;
    const std::jthread actor([&] {
      Writer writer = line.replay.writer();
      for (std::uint64_t i = 0; i < 40; ++i) {
        EXPECT_EQ(line.append(writer, i), CommitStatus::Committed);
        ++committed;
      }
    });
    while (committed < 40) {
      yield_while([&] {
        return committed < 40 && line.replay.stats().writers_for_limiter.waiting_now == 0;
      });
      removes ? (void)line.replay.episodes().remove(0) : line.replay.clear();
    }
    expect_steps_add_up(line.replay);
  }
}

TEST(Clear, LetsNoSamplerReportThatThereIsNothingToDraw) {
  for (std::size_t round = 0; round < scaled(200, 30); ++round) {
    NumberedBuffer line(SmallOptions{.shards = 1 + round % 3});
    std::atomic<bool> drawing = true;
    std::jthread learner([&] {
      Sampler sampler = line.replay.sampler();
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(sampler.sample(2).status().code, SampleStatus::Code::Ok);
      }
      drawing = false;
    });
    for (std::uint64_t i = 0; drawing; ++i) {
      line.append(i);
      if (i % 3 == 2) {
        line.replay.clear();
      }
    }
  }
}

/// Samplers copy rows while writers append and the buffer is cleared.
TEST(Clear, WhileThreadsAppendAndDrawTearsNoRowAndCountsEveryStep) {
  NumberedBuffer line(three_shards());
  std::atomic<int> busy = 2;
  std::vector<std::jthread> threads;
  start(threads, 2, [&](std::uint64_t thread) {
    Writer writer = line.replay.writer();
    for (std::uint64_t i = 1; i < scaled(20'000, 2000); ++i) {
      line.append(writer, thread * 1'000'000'000 + i, i % 50 == 0 ? End::Truncated : End::Continue);
    }
    --busy;
  });
  start(threads, 2, [&](std::uint64_t seed) {
    Sampler sampler = line.replay.sampler({.seed = seed});
    while (busy != 0) {
      const SampleResult batch = sampler.sample(16, kNoWait);
      for (std::size_t i = 0; batch && i < 16; ++i) {
        ASSERT_EQ(batch->next(line.id)[i], batch->now(line.action)[i] + 1);
        ASSERT_EQ(batch->returns(line.reward)[i], static_cast<float>(batch->now(line.action)[i]));
      }
    }
  });
  while (busy != 0) {
    line.replay.clear();
  }
  threads.clear();
  line.replay.clear();
  EXPECT_EQ(line.replay.size(), 0U);
  EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
  expect_steps_add_up(line.replay);
}

TEST(Clear, ACheckpointAfterItHasOnlyTheLaterSteps) {
  const ScratchDirectory directory;
  NumberedBuffer line(three_shards());
  line.append_many(0, 40);
  line.replay.save(directory.path());
  line.replay.clear();
  line.append_many(40, 7);
  line.replay.save(directory.path());
  ReplayBuffer loaded = ReplayBuffer::load(directory.path()).buffer;
  EXPECT_EQ(loaded.size(), 7U);
  EXPECT_EQ(loaded.stats().evicted_steps, 40U);
}

TEST(ResetPriorities, GivesEveryItemThePriority) {
  NumberedBuffer line(SmallOptions{.max_times_sampled = 2, .shards = 3});
  line.append_many(0, 30, [](std::uint64_t i) { return static_cast<float>(i); });
  line.replay.selector().reset(4.0F);  // `reset` first ingests the steps committed before.
  EXPECT_EQ(line.replay.selector().totals().weight, 120.0);
  EXPECT_EQ(line.replay.selector().totals().largest, 4.0F);
  EXPECT_EQ(line.replay.stats().applied_updates, 0U);
  // Exhausted items stay in the buffer, but cannot be drawn.
  Sampler sampler = line.replay.sampler();
  ASSERT_TRUE(sampler.sample(30, {.draws = Draws::WithoutReplacement, .timeout = {}}));
  ASSERT_TRUE(sampler.sample(20, {.draws = Draws::WithoutReplacement, .timeout = {}}));
  line.replay.selector().reset();
  EXPECT_EQ(line.replay.selector().totals().weight, 10.0);
  EXPECT_EQ(line.replay.selector().totals().items, 10U);
  // A selector with exponent 2 weighs the new priority by that exponent.
  NumberedBuffer other;
  other.append_many(0, 10);
  other.replay.selector().set_alpha(2.0F);
  other.replay.selector().reset(3.0F);
  EXPECT_EQ(other.replay.selector().totals().weight, 90.0);
  EXPECT_EQ(other.replay.selector(1).totals().weight, 10.0);
}

TEST(ResetPriorities, RefusesPrioritiesWithoutAWeight) {
  NumberedBuffer line;
  line.append_many(0, 5, 2.0F);
  for (const float bad :
       {-1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    expect_refusal([&] { line.replay.selector().reset(bad); }, {"reset: priority is"});
  }
  expect_refusal([&] { line.replay.selector(2).reset(1.0F); }, {"selector is 2"});
  EXPECT_EQ(line.replay.selector().totals().weight, 10.0);
}

}  // namespace
}  // namespace reprise::test
