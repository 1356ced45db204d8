#include <reprise/remote.hpp>

#include "testing/test.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace {

constexpr long kHour = 3600;  ///< In seconds.
/// While `running_back`, each reading sets the wall clock back by another hour.
std::atomic<bool> running_back = false;
/// Seconds by which the wall clock was set back.
std::atomic<long> set_back = 0;
/// Seconds by which the steady clock is ahead of the system's.
std::atomic<long> ahead = 0;

}  // namespace

/// Replaces the function of the C library in the whole program.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME && running_back.load()) {
    time->tv_sec -= set_back.fetch_add(kHour);
  } else if (clock == CLOCK_MONOTONIC) {
    time->tv_sec += ahead.load();
  }
  return result;
}

namespace reprise::test {
namespace {

class WallClock : public testing::Test {
 protected:
  WallClock() { running_back.store(true); }
  ~WallClock() override { running_back.store(false); }
};

/// The steady clock jumps by an hour each time the mixed sampler asks its hook in a wait, and the
/// hook appends a step for which the first part waits.
TEST(SteadyClock, ATimeoutOfAMixedSamplerIsForTheWaitsOfAllItsParts) {
  NumberedBuffer one;
  NumberedBuffer other;
  Writer writer = one.replay.writer();
  MixedSampler both({{one.replay, 1}, {other.replay, 1}});
  class AppendingHook final : public WaitHook {
   public:
    AppendingHook(NumberedBuffer& line, Writer& writer) : line_(line), writer_(writer) {}
    bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
      if (waited != 0ns) {
        ahead.fetch_add(kHour);
        line_.append(writer_, number_++);
      }
      return true;
    }

   private:
    NumberedBuffer& line_;
    Writer& writer_;
    std::uint64_t number_ = 0;
  } hook(one, writer);
  const SampleStatus none = both.sample({.timeout = 90min, .hook = &hook}).status();
  EXPECT_EQ(none.code, SampleStatus::Code::TimedOut);
  EXPECT_EQ(both.waits_for(), 1U);
  EXPECT_GE(none.waited, 2h) << "an hour for each part";
  EXPECT_LT(none.waited, 3h) << "the second part has the rest of the timeout";
}

/// Three processes ship the steps of their writers to one shard, which has room for two writers.
TEST(SteadyClock, AProcessThatIsSilentForAnHourLosesItsWriterToAnother) {
  using Kind = ShipmentOutcome::Kind;
  const Options options = SmallOptions{.max_writers = 2, .chunk_steps = 16};
  NumberedBuffer line(options);
  ReplayShard shard(line.replay, 0, 5, {.silent = 1h, .forgotten = 1000h});
  std::vector<std::unique_ptr<StepPacker>> packers;
  std::vector<Writer> writers;
  for (int i = 0; i < 3; ++i) {
    packers.push_back(std::make_unique<StepPacker>(line.schema, options));
    writers.push_back(packers.back()->writer());
  }
  const auto five_steps = [&](std::size_t process) {
    line.append_many(writers[process], 100 * process, 5);
    return packers[process]->take();
  };
  const auto deliver = [&](std::size_t process, const Blob& steps) {
    const std::vector<ShipmentOf> all{{packers[process]->writer_id(), steps.bytes()}};
    const Blob answer = shard.append_all(shipments_of(process, 0, all).bytes(), 0ns);
    return outcomes_of(answer.bytes()).at(0);
  };
  EXPECT_EQ(deliver(0, five_steps(0)).kind, Kind::Appended);
  EXPECT_EQ(deliver(1, five_steps(1)).kind, Kind::Appended);
  const Blob more = five_steps(2);
  const ShipmentOutcome none = deliver(2, more);
  EXPECT_EQ(none.kind, Kind::NoWriter);
  EXPECT_NE(none.reason.find("max_writers is 2"), std::string::npos);
  // Process 0 sends a shipment under the id of the writer of process 1. The shipment is refused,
  // and the writer stays that of process 1.
  const std::vector<ShipmentOf> of_another{{packers[1]->writer_id(), more.bytes()}};
  EXPECT_EQ(
      outcomes_of(shard.append_all(shipments_of(0, 0, of_another).bytes(), 0ns).bytes()).at(0).kind,
      Kind::Invalid);
  EXPECT_FALSE(shard.is_silent(0));
  EXPECT_TRUE(shard.is_silent(9)) << "the shard has never heard of process 9";
  ahead.fetch_add(2 * kHour);
  EXPECT_TRUE(shard.is_silent(0));
  // An empty request shows that process 1 is alive.
  static_cast<void>(shard.append_all(shipments_of(1, 0, {}).bytes(), 0ns));
  EXPECT_FALSE(shard.is_silent(1));
  EXPECT_EQ(deliver(2, more).kind, Kind::Appended);
  EXPECT_EQ(shard.deliveries().silent_writers_closed, 1U);
  EXPECT_EQ(shard.writers(), 2U);
  EXPECT_EQ(deliver(1, five_steps(1)).kind, Kind::Appended);
  EXPECT_EQ(shard.deliveries().restarted_episodes, 0U);
}

TEST(SteadyClock, AProcessWhoseCallWaitsForTheLimiterIsNotSilent) {
  using Kind = ShipmentOutcome::Kind;
  const Options options = SmallOptions{
      .rate_limiter = SampleToInsertRatio{.samples_per_insert = 1.0, .error_buffer = 8.0},
      .max_writers = 1};
  NumberedBuffer line(options);
  ReplayShard shard(line.replay, 0, 5, {.silent = 1h, .forgotten = 1h});
  const auto deliver = [&](std::uint64_t process, const Blob& steps,
                           std::chrono::nanoseconds timeout) {
    const std::vector<ShipmentOf> all{{process, steps.bytes()}};
    return outcomes_of(shard.append_all(shipments_of(process, 0, all).bytes(), timeout).bytes());
  };
  const auto steps_of = [&](std::uint64_t process, std::size_t count) {
    StepPacker packer(line.schema, options, process);
    Writer writer = packer.writer();
    line.append_many(writer, 100 * process, count);
    return packer.take();
  };
  const Blob many = steps_of(0, 64);
  const Blob more = steps_of(1, 2);
  std::jthread waiting([&] { EXPECT_EQ(deliver(0, many, kNoTimeout).at(0).kind, Kind::Closed); });
  yield_while([&] { return line.replay.stats().writers_for_limiter.waiting_now == 0; });
  ahead.fetch_add(2 * kHour);
  EXPECT_FALSE(shard.is_silent(0));
  EXPECT_EQ(deliver(1, more, 0ns).at(0).kind, Kind::NoWriter);
  EXPECT_EQ(shard.deliveries().silent_writers_closed, 0U);
  line.replay.close();
  waiting.join();
  EXPECT_FALSE(shard.is_silent(0)) << "the call of process 0 has just ended";
  ahead.fetch_add(2 * kHour);
  EXPECT_TRUE(shard.is_silent(0));
}

TEST_F(WallClock, RunsBackwardsInTheseTests) {
  const auto before = std::chrono::system_clock::now();
  EXPECT_LT(std::chrono::system_clock::now(), before);
  const auto steady = std::chrono::steady_clock::now();
  EXPECT_GE(std::chrono::steady_clock::now(), steady);
}

TEST_F(WallClock, RunningBackwardsDoesNotChangeTheTimeoutsOfSamplers) {
  NumberedBuffer line;
  Sampler sampler = line.replay.sampler();
  const SampleResult nothing = sampler.sample(4, {.timeout = 20ms});
  EXPECT_EQ(nothing.status().code, SampleStatus::Code::TimedOut);
  EXPECT_GE(nothing.status().waited, 20ms);
  EXPECT_LT(nothing.status().waited, 10min)
      << "each reading of the wall clock sets it back by an hour";
  std::jthread actor([&] {
    std::this_thread::sleep_for(5ms);
    Writer writer = line.replay.writer();
    line.append_many(writer, 0, 10);
  });
  EXPECT_TRUE(sampler.sample(4, {.timeout = 10min}));
}

TEST_F(WallClock, RunningBackwardsDoesNotChangeTheTimeoutsOfWriters) {
  NumberedBuffer line(
      SmallOptions{.rate_limiter = SampleToInsertRatio{
                       .samples_per_insert = 1.0, .min_size = 1, .error_buffer = 8.0}});
  Writer writer = line.replay.writer({.timeout = 20ms});
  line.append_until_held(writer);
  const WaitStats waits = line.replay.stats().writers_for_limiter;
  EXPECT_EQ(waits.timeouts, 1U);
  EXPECT_GE(waits.total, 20ms);
  EXPECT_LT(waits.longest, 10min);
}

TEST_F(WallClock, RunningBackwardsDoesNotChangeTheTimeoutOfAPrefetcher) {
  NumberedBuffer line;
  Sampler sampler = line.replay.sampler();
  Prefetcher prefetcher(sampler, 4);
  const SampleResult nothing = prefetcher.next(20ms);
  EXPECT_EQ(nothing.status().code, SampleStatus::Code::TimedOut);
  EXPECT_GE(nothing.status().waited, 20ms);
  EXPECT_LT(nothing.status().waited, 10min);
}

}  // namespace
}  // namespace reprise::test
