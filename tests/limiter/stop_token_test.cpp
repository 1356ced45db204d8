#include "buffer/buffer_core.hpp"
#include "testing/test.hpp"
#include "writer/writer_core.hpp"

namespace reprise::test {
namespace {

using Code = SampleStatus::Code;

/// Limiters that hold a writer at some step if nothing is sampled.
std::vector<RateLimiter> holding_limiters() {
  return {Queue{16},
          SampleToInsertRatio{.samples_per_insert = 1.0, .min_size = 1, .error_buffer = 8.0}};
}

Options options_with(const RateLimiter& limiter) {
  return SmallOptions{.max_times_sampled = 1'000'000, .rate_limiter = limiter};
}

std::stop_token stopped_token() {
  std::stop_source source;
  source.request_stop();
  return source.get_token();
}

/// Appends until a commit does not return Committed. Returns its status.
CommitStatus append_while_committed(NumberedBuffer& line, Writer& writer) {
  CommitStatus status = CommitStatus::Committed;
  for (std::uint64_t number = 0; status == CommitStatus::Committed; ++number) {
    status = line.append(writer, number);
  }
  return status;
}

TEST(StopToken, RequestedBeforeTheCallKeepsASamplerFromWaitingAndNotFromDrawing) {
  NumberedBuffer line(options_with(MinSize{4}));
  Sampler sampler = line.replay.sampler();
  const SampleStatus status = sampler.sample(2, {.stop = stopped_token()}).status();
  EXPECT_EQ(status.code, Code::Stopped);
  EXPECT_EQ(status.items, 0U);
  EXPECT_EQ(status.needed, 4U);
  EXPECT_EQ(status.message().find("stopped after "), 0U) << status.message();
  EXPECT_NE(status.message().find("0 of the 4 items needed"), std::string::npos);
  line.append_many(0, 4);
  EXPECT_TRUE(sampler.sample(2, {.stop = stopped_token()}));
  const WaitStats waits = line.replay.stats().samplers_for_items;
  EXPECT_EQ(waits.waits, 1U);
  EXPECT_EQ(waits.stops, 1U);
  EXPECT_EQ(waits.timeouts, 0U);
}

TEST(StopToken, RequestedBeforeTheCallKeepsAWriterFromWaitingAndNotFromCommitting) {
  for (const RateLimiter& limiter : holding_limiters()) {
    NumberedBuffer line(options_with(limiter));
    Writer writer = line.replay.writer({.stop = stopped_token()});
    EXPECT_EQ(append_while_committed(line, writer), CommitStatus::Stopped);
    const std::uint64_t committed = line.replay.stats().committed_steps;
    EXPECT_GE(committed, 8U);
    EXPECT_EQ(writer.commit(), CommitStatus::Stopped) << "the repeated commit";
    EXPECT_EQ(line.replay.stats().committed_steps, committed);
    EXPECT_EQ(line.replay.stats().writers_for_limiter.stops, 2U);
    EXPECT_EQ(line.replay.stats().writers_for_limiter.timeouts, 0U);
    expect_steps_add_up(line.replay);
  }
}

TEST(StopToken, WakesASamplerHeldByTheRatioWhoseStatusSaysWhy) {
  NumberedBuffer line(options_with(holding_limiters().back()));
  line.append_many(0, 5);
  SampleStatus status;
  std::jthread learner([&](const std::stop_token& stop) {
    Sampler sampler = line.replay.sampler();
    SampleResult result = sampler.sample(2, {.stop = stop});
    while (result) {
      result = sampler.sample(2, {.stop = stop});
    }
    status = result.status();
  });
  yield_while([&] { return line.replay.stats().samplers_for_limiter.waiting_now == 0; });
  learner.request_stop();
  learner.join();
  EXPECT_EQ(status.code, Code::Stopped);
  EXPECT_TRUE(status.held_by_ratio);
  // 12 samples were drawn, and 5 - 1 steps count as inserts, so samples are 8 ahead.
  EXPECT_EQ(status.balance.ahead, 8.0);
  EXPECT_NE(status.message().find("samples are 8 ahead of 1 per insert, of 8 allowed"),
            std::string::npos)
      << status.message();
}

TEST(StopToken, EndsAWritersWaitForAChunk) {
  Schema schema;
  [[maybe_unused]] const auto reward = schema.reward("reward");
  const auto core = std::make_shared<buffer::BufferCore>(schema, SmallOptions{});
  std::stop_source source;
  writer::WriterCore writer(core, core->slots().take().value_or(0), {.stop = source.get_token()});
  writer.begin_episode();
  CommitStatus status = CommitStatus::Committed;
  {
    // While the lock is held, no thread can evict, so no chunk gets free.
    const base::MutexLock lock(core->shards()[0].mutex);
    std::jthread actor([&] {
      while (status == CommitStatus::Committed) {
        status = writer.commit(End::Continue, {});
      }
    });
    yield_while([&] { return !core->shards().writers_for_chunk.anybody_waiting(); });
    source.request_stop();
  }
  EXPECT_EQ(status, CommitStatus::Stopped);
  EXPECT_EQ(core->shards().writers_for_chunk.stats().stops, 1U);
  EXPECT_EQ(writer.commit(End::Continue, {}), CommitStatus::Committed) << "there is room at once";
}

TEST(StopToken, ACloseIsReportedBeforeAStop) {
  NumberedBuffer line(options_with(MinSize{}));
  line.replay.close();
  EXPECT_EQ(as_lvalue(line.replay.sampler()).sample(2, {.stop = stopped_token()}).status().code,
            Code::Closed);
  Writer writer = line.replay.writer({.stop = stopped_token()});
  EXPECT_EQ(line.append(writer, 0), CommitStatus::Closed);
}

TEST(StopToken, OfOneCallDoesNotEndOtherWaits) {
  NumberedBuffer line;
  std::stop_source stopped;
  std::atomic<bool> other_is_back = false;
  std::jthread other([&] {
    EXPECT_TRUE(as_lvalue(line.replay.sampler()).sample(4));
    other_is_back.store(true);
  });
  std::jthread stopped_call([&] {
    EXPECT_EQ(
        as_lvalue(line.replay.sampler()).sample(4, {.stop = stopped.get_token()}).status().code,
        Code::Stopped);
  });
  yield_while([&] { return line.replay.stats().samplers_for_items.waiting_now < 2; });
  stopped.request_stop();
  stopped_call.join();
  EXPECT_FALSE(other_is_back.load());
  line.append(0);
  other.join();
}

/// A closed buffer ends all calls, as a stop request does.
TEST(StopToken, AtRandomMomentsEndsEveryCall) {
  const std::size_t runs = scaled(400, 40);
  for (std::size_t run = 0; run < runs; ++run) {
    const std::string seed = "seed " + std::to_string(run);
    SCOPED_TRACE(seed);
    Rng rng(run);
    const bool closes = rng.chance(0.5);
    Options options = options_with(holding_limiters().at(rng.below(2)));
    options.shards = rng.between(1, 3);
    NumberedBuffer line(options);
    std::stop_source source;
    std::vector<std::jthread> threads;
    start(threads, rng.between(1, 3), [&] {
      SCOPED_TRACE(seed);  // Each thread needs a trace of its own.
      Writer writer = line.replay.writer({.stop = source.get_token()});
      EXPECT_EQ(append_while_committed(line, writer),
                closes ? CommitStatus::Closed : CommitStatus::Stopped);
    });
    start(threads, rng.between(1, 3), [&] {
      SCOPED_TRACE(seed);
      Sampler sampler = line.replay.sampler();
      SampleResult batch = sampler.sample(4, {.stop = source.get_token()});
      while (batch && !source.stop_requested()) {
        batch = sampler.sample(4, {.stop = source.get_token()});
      }
      EXPECT_TRUE(closes ? batch.status().code == Code::Closed
                         : batch || batch.status().code == Code::Stopped)
          << batch.status().message();
    });
    std::this_thread::sleep_for(std::chrono::microseconds(rng.below(2000)));
    closes ? line.replay.close() : (void)source.request_stop();
    threads.clear();
    expect_steps_add_up(line.replay);
  }
}

}  // namespace
}  // namespace reprise::test
