#include "testing/test.hpp"

namespace reprise::test {
namespace {

Options held_options() {
  return SmallOptions{.rate_limiter = SampleToInsertRatio{
                          .samples_per_insert = 1.0, .min_size = 1, .error_buffer = 8.0}};
}

void append_until_closed(NumberedBuffer& line) {
  Writer writer = line.replay.writer();
  CommitStatus status = CommitStatus::Committed;
  for (std::uint64_t number = 0; status == CommitStatus::Committed; ++number) {
    status = line.append(writer, number);
  }
  EXPECT_EQ(status, CommitStatus::Closed)
      << "a commit without a timeout can only be ended by the close";
}

TEST(Close, LaterCommitsReportClosedAndCommitNothing) {
  NumberedBuffer line;
  line.append(0);
  line.replay.close();
  EXPECT_EQ(line.append(1), CommitStatus::Closed);
  EXPECT_EQ(line.append(1, End::Terminated), CommitStatus::Closed);
  EXPECT_EQ(line.replay.stats().committed_steps, 1U);
  expect_steps_add_up(line.replay);
  line.replay.close();
  EXPECT_TRUE(line.replay.closed()) << "a second close changes nothing";
}

TEST(Close, LeavesSizeStatsAndUpdatesWorking) {
  NumberedBuffer line;
  line.append_many(0, 5);
  const auto keys = line.keys();
  line.replay.close();
  EXPECT_EQ(line.replay.size(), 5U);
  EXPECT_EQ(line.update(keys.at(2), 2.0F).applied, 1U);
}

TEST(Close, HandlesOfADestroyedBufferReadItAsClosed) {
  std::optional<NumberedBuffer> line(SmallOptions{.episode_index = true});
  line->append_many(0, 5);
  const std::uint64_t episode = line->writer().episode_id();
  SelectorHandle selector = line->replay.selector();
  Episodes episodes = line->replay.episodes();
  line.reset();
  EXPECT_EQ(as_lvalue(selector.sampler()).sample(1).status().code, SampleStatus::Code::Closed);
  const ItemKey key = episodes.find(episode, 2).value();
  EXPECT_EQ(selector.update({&key, 1}, std::vector{3.0F}).applied, 1U);
  EXPECT_EQ(selector.totals().largest, 3.0F);
  EXPECT_EQ(episodes.remove(episode), 5U);
}

TEST(Close, WakesASleepingSampler) {
  NumberedBuffer line;
  std::jthread learner([&] {
    EXPECT_EQ(as_lvalue(line.replay.sampler()).sample(4).status().code, SampleStatus::Code::Closed);
  });
  yield_while([&] { return line.replay.stats().samplers_for_items.waiting_now == 0; });
  line.replay.close();
}

TEST(Close, WakesASamplerHeldByTheRatio) {
  NumberedBuffer line(held_options());
  line.append_many(0, 4);
  std::jthread learner([&] {
    Sampler sampler = line.replay.sampler();
    SampleResult batch = sampler.sample(2);
    while (batch) {
      batch = sampler.sample(2);
    }
    EXPECT_EQ(batch.status().code, SampleStatus::Code::Closed);
  });
  yield_while([&] { return line.replay.stats().samplers_for_limiter.waiting_now == 0; });
  line.replay.close();
}

TEST(Close, WakesAWriterHeldByTheRatio) {
  NumberedBuffer line(held_options());
  std::jthread actor([&] { append_until_closed(line); });
  yield_while([&] { return line.replay.stats().writers_for_limiter.waiting_now == 0; });
  line.replay.close();
}

TEST(Close, AStepThatTheLimiterHeldIsNeverCommitted) {
  NumberedBuffer line(held_options());
  Writer writer = line.replay.writer({.timeout = 0ns});
  line.append_until_held(writer);
  const std::uint64_t committed = line.replay.stats().committed_steps;
  line.replay.close();
  EXPECT_EQ(writer.commit(), CommitStatus::Closed);
  EXPECT_EQ(line.replay.stats().committed_steps, committed);
  expect_steps_add_up(line.replay);
}

TEST(Close, DestroyingTheBufferClosesIt) {
  std::optional<NumberedBuffer> line(std::in_place);
  Sampler sampler = line->replay.sampler();
  std::atomic<bool> started = false;
  std::jthread learner([&] {
    started.store(true);
    EXPECT_EQ(sampler.sample(4).status().code, SampleStatus::Code::Closed);
  });
  yield_while(
      [&] { return !started.load() || line->replay.stats().samplers_for_items.waiting_now == 0; });
  line.reset();
}

TEST(Close, AMovedBufferStaysOpenAndTheBufferThatItReplacesIsClosed) {
  NumberedBuffer one;
  NumberedBuffer other;
  other.append(0);
  Writer& writer = one.writer();
  one.replay = std::move(other.replay);
  EXPECT_EQ(one.append(writer, 0), CommitStatus::Closed);
  EXPECT_EQ(other.append(1), CommitStatus::Committed);
  EXPECT_EQ(one.replay.size(), 2U);
}

}  // namespace
}  // namespace reprise::test
