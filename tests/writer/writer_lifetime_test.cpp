#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"
#include "testing/fixtures/refusal.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

namespace reprise::test {
namespace {

Options n_step_options(std::uint32_t n_step) {
  return Small{.window = Transitions{.n_step = n_step, .discount = 0.5F}, .chunk_steps = 16};
}

TEST(WriterLifetime, BeginningAnEpisodeWithinOneEndsItAsTruncatedAtTheLastCommit) {
  Line line(n_step_options(3));
  Writer writer = line.replay.writer();
  line.append(writer, 0);
  line.append(writer, 1);
  writer.now(line.action) = 99;  // Never committed, so never there.
  writer.begin_episode();
  writer.now(line.id) = 10;
  line.append(writer, 10, End::Terminated);

  EXPECT_EQ(line.numbers(), (std::vector<std::uint64_t>{0, 1, 10}));
  Sampler sampler = line.replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(64));
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const std::uint64_t number = batch->now(line.id)[i];
    SCOPED_TRACE(number);
    const bool first = number < 10;
    EXPECT_EQ(batch->lengths()[i], first ? 2 - number : 1);
    EXPECT_EQ(batch->next(line.id)[i], first ? 2U : 11U);
    EXPECT_EQ(batch->discounts()[i], first ? std::pow(0.5F, static_cast<float>(2 - number)) : 0.0F)
        << "truncated is not terminated";
  }
}

TEST(WriterLifetime, EpisodesBegunWithoutACommitTakeNoRows) {
  Line line;
  Writer writer = line.replay.writer();
  line.append(writer, 0);
  writer.begin_episode();
  const std::uint64_t closed_chunks = line.replay.stats().closed_chunks;
  for (int i = 0; i < 100; ++i) {
    writer.begin_episode();
  }
  EXPECT_EQ(line.replay.stats().closed_chunks, closed_chunks);
}

TEST(WriterLifetime, DestroyingItGivesBackTheInsertsThatItHadBooked) {
  Line line(Small{.rate_limiter = SampleToInsertRatio{
                      .samples_per_insert = 1.0, .min_size = 1, .error_buffer = 1000.0}});
  for (std::uint64_t i = 0; i < 100; ++i) {
    Writer writer = line.replay.writer({.timeout = {}});
    ASSERT_EQ(line.append(writer, i, End::Terminated), CommitStatus::Committed)
        << "held back for inserts that never came";
  }
}

TEST(WriterLifetime, BeginningTwiceWithoutACommitLeavesNothingBehind) {
  Line line;
  Writer writer = line.replay.writer();
  writer.begin_episode();
  writer.now(line.id) = 1;
  writer.begin_episode();
  writer.now(line.id) = 2;
  line.append(writer, 2, End::Terminated);
  EXPECT_EQ(line.numbers(), numbers_between(2, 3));
  EXPECT_EQ(line.replay.stats().committed_steps, 1U);
}

TEST(WriterLifetime, DestroyingItEndsTheEpisodeAsTruncatedAtTheLastCommit) {
  Line line(n_step_options(4));
  {
    Writer writer = line.replay.writer();
    line.append(writer, 0);
    line.append(writer, 1);
    writer.now(line.action) = 99;
    EXPECT_EQ(line.replay.size(), 0U);
  }
  EXPECT_EQ(line.replay.size(), 2U);
  EXPECT_EQ(line.replay.stats().writers, 0U);
  Sampler sampler = line.replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(16));
  for (std::size_t i = 0; i < batch->size(); ++i) {
    EXPECT_GT(batch->discounts()[i], 0.0F);
    EXPECT_EQ(batch->next(line.id)[i], 2U);
  }
  expect_accounted(line.replay);
  EXPECT_EQ(line.replay.stats().pending_steps, 0U);
}

TEST(WriterLifetime, IsRefusedBeyondMaxWritersAliveAndWelcomeAgainWhenOneLeaves) {
  Line line;
  std::vector<Writer> writers;
  for (int i = 0; i < 8; ++i) {
    writers.push_back(line.replay.writer());
  }
  EXPECT_EQ(line.replay.stats().writers, 8U);
  expect_refusal<std::runtime_error>([&] { (void)line.replay.writer(); }, {"max_writers", "8"});
  writers.pop_back();
  writers.push_back(line.replay.writer());
  expect_refusal<std::runtime_error>([&] { (void)line.replay.writer(); }, {"max_writers"});
}

TEST(WriterLifetime, RefusesANegativeTimeout) {
  Line line;
  expect_refusal<std::invalid_argument>(
      [&] { (void)line.replay.writer({.timeout = std::chrono::nanoseconds(-1)}); },
      {"timeout", "-1"});
  EXPECT_EQ(line.replay.stats().writers, 0U);
}

TEST(WriterLifetime, ManyMayComeAndGoAndNoStepIsLost) {
  Line line(Small{.capacity_steps = 5000, .shards = 3});
  constexpr std::uint64_t kWriters = 3000;
  for (std::uint64_t w = 0; w < kWriters; ++w) {
    Writer writer = line.replay.writer();
    if (w % 3 == 0) {
      continue;  // One that never wrote anything.
    }
    if (w % 3 == 1) {
      writer.begin_episode();
      continue;
    }
    line.append(writer, w, w % 2 == 0 ? End::Terminated : End::Continue);
  }
  const Stats stats = line.replay.stats();
  EXPECT_EQ(stats.committed_steps, kWriters / 3);
  EXPECT_EQ(stats.writers, 0U);
  EXPECT_EQ(line.replay.size(), kWriters / 3);
  expect_accounted(line.replay);
}

TEST(WriterLifetime, OutlivesItsBufferWhichThenReadsAsClosed) {
  std::optional<Line> line(std::in_place);
  Writer writer = line->replay.writer();
  Writer idle = line->replay.writer();
  const auto id = line->id;
  const auto action = line->action;
  const auto reward = line->reward;
  line->append(writer, 0);
  line.reset();
  writer.now(action) = 1;
  writer.now(reward) = 1.0F;
  writer.next(id) = 2;
  EXPECT_EQ(writer.commit(), CommitStatus::Closed);
  EXPECT_EQ(writer.episode_steps(), 1U);
  idle.begin_episode();
  idle.now(id) = 0;
  idle.now(action) = 1;
  idle.now(reward) = 1.0F;
  idle.next(id) = 2;
  EXPECT_EQ(idle.commit(), CommitStatus::Closed);
}

TEST(WriterLifetime, FourThousandAndNinetySixOfThemShareABufferOfAMillionSteps) {
  Line line(Options{.capacity_steps = 1'000'000, .selectors = {kRaw}, .max_writers = 4096});
  std::vector<Writer> writers;
  for (int w = 0; w < 4096; ++w) {
    writers.push_back(line.replay.writer());
  }
  EXPECT_THROW((void)line.replay.writer(), std::runtime_error);
  constexpr std::uint64_t kRounds = 300;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    for (std::uint64_t w = 0; w < writers.size(); ++w) {
      const End end = (round + w) % 50 == 49 ? End::Terminated : End::Continue;
      ASSERT_EQ(line.append(writers[w], round * 4096 + w, end), CommitStatus::Committed);
    }
  }
  EXPECT_EQ(line.replay.size(), 1'000'000U);
  EXPECT_EQ(line.replay.stats().committed_steps, kRounds * 4096);
  expect_accounted(line.replay);
  Sampler sampler = line.replay.sampler({.seed = 4});
  for (int i = 0; i < 20; ++i) {
    const SampleResult batch = require_batch(sampler.sample(512));
    for (std::size_t k = 0; k < batch->size(); ++k) {
      ASSERT_EQ(batch->now(line.reward)[k], static_cast<float>(batch->now(line.action)[k]));
    }
  }
  writers.clear();
  EXPECT_EQ(line.replay.size(), 1'000'000U);
  expect_accounted(line.replay);
}

#ifdef REPRISE_DCHECK
TEST(WriterLifetime, ASecondThreadInsideIsNoticed) {
  Line line(Small{.rate_limiter = SampleToInsertRatio{.error_buffer = 8.0}});
  Writer writer = line.replay.writer();
  std::jthread actor([&] {
    for (std::uint64_t number = 0; line.append(writer, number) == CommitStatus::Committed;) {
      ++number;
    }
  });
  yield_while([&] { return line.replay.stats().writers_for_limiter.waiting_now == 0; });
  expect_refusal<std::logic_error>([&] { (void)writer.commit(); }, {"thread"});
  line.replay.close();
}
#endif

}  // namespace
}  // namespace reprise::test
