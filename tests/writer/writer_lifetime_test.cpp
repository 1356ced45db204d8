#include "testing/test.hpp"

namespace reprise::test {
namespace {

TEST(WriterLifetime, EpisodesBegunWithoutACommitTakeNoRows) {
  NumberedBuffer line;
  Writer writer = line.replay.writer();
  line.append(writer, 0);
  writer.begin_episode();
  const std::uint64_t closed_chunks = line.replay.stats().closed_chunks;
  for (int i = 0; i < 100; ++i) {
    writer.begin_episode();
  }
  EXPECT_EQ(line.replay.stats().closed_chunks, closed_chunks);
}

TEST(WriterLifetime, ADestroyedWriterGivesBackTheInsertsThatItHadBooked) {
  NumberedBuffer line(
      SmallOptions{.rate_limiter = SampleToInsertRatio{
                       .samples_per_insert = 1.0, .min_size = 1, .error_buffer = 1000.0}});
  for (std::uint64_t i = 0; i < 100; ++i) {
    Writer writer = line.replay.writer({.timeout = {}});
    ASSERT_EQ(line.append(writer, i, End::Terminated), CommitStatus::Committed)
        << "held because of inserts that a destroyed writer had booked";
  }
}

TEST(WriterLifetime, IsRefusedBeyondMaxWritersAliveAndWelcomeAgainWhenOneLeaves) {
  NumberedBuffer line;
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
  NumberedBuffer line;
  expect_refusal([&] { (void)line.replay.writer({.timeout = std::chrono::nanoseconds(-1)}); },
                 {"timeout", "-1"});
  EXPECT_EQ(line.replay.stats().writers, 0U);
}

TEST(WriterLifetime, OutlivesItsBufferWhichThenReadsAsClosed) {
  std::optional<NumberedBuffer> line(std::in_place);
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

TEST(WriterLifetime, FourThousandAndNinetySixWritersShareABufferOfAMillionSteps) {
  NumberedBuffer line(
      Options{.capacity_steps = 1'000'000, .selectors = {kRawProportional}, .max_writers = 4096});
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
  expect_steps_add_up(line.replay);
  Sampler sampler = line.replay.sampler({.seed = 4});
  for (int i = 0; i < 20; ++i) {
    const SampleResult batch = require_batch(sampler.sample(512));
    for (std::size_t k = 0; k < batch->size(); ++k) {
      ASSERT_EQ(batch->now(line.reward)[k], static_cast<float>(batch->now(line.action)[k]));
    }
  }
  writers.clear();
  EXPECT_EQ(line.replay.size(), 1'000'000U);
  expect_steps_add_up(line.replay);
}

#ifdef REPRISE_DCHECK
TEST(WriterLifetime, ASecondThreadInsideIsNoticed) {
  NumberedBuffer line(SmallOptions{.rate_limiter = SampleToInsertRatio{.error_buffer = 8.0}});
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
