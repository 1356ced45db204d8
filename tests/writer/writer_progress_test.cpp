#include "buffer/buffer_core.hpp"
#include "limiter/gates.hpp"
#include "testing/faults/lock_holder.hpp"
#include "testing/test.hpp"
#include "writer/writer_core.hpp"

namespace reprise::test {
namespace {

TEST(WriterProgress, NeverWaitsForAShardsLock) {
  Schema schema;
  [[maybe_unused]] const auto reward = schema.reward("reward");
  Options options = SmallOptions{.shards = 2};
  const auto core = std::make_shared<buffer::BufferCore>(schema, options);
  const std::size_t slot = core->slots().take().value();
  writer::WriterCore writer(core, slot, {.timeout = 5ms});
  writer.begin_episode();
  std::size_t committed = 0;
  {
    shard::Shard& first = core->shards()[0];
    shard::Shard& second = core->shards()[1];
    const base::MutexLock lock_first(first.mutex);
    const base::MutexLock lock_second(second.mutex);
    // The writer fills every chunk, and then gives up because no chunk is free.
    std::jthread([&] {
      while (writer.commit(End::Continue, {}) == CommitStatus::Committed) {
        ++committed;
      }
    }).join();
  }
  EXPECT_GE(committed, options.capacity_steps);
  EXPECT_EQ(writer.commit(End::Continue, {}), CommitStatus::Committed);
}

TEST(WriterProgress, TakesNoMoreMemoryThanUsualWhileAShardsLockIsHeld) {
  Schema schema;
  [[maybe_unused]] const auto reward = schema.reward("reward");
  const auto core = std::make_shared<buffer::BufferCore>(schema, SmallOptions{.shards = 2});
  writer::WriterCore writer(core, core->slots().take().value(), {});
  writer.begin_episode();
  const auto commit = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      ASSERT_EQ(writer.commit(End::Continue, {}), CommitStatus::Committed);
    }
  };
  commit(300);
  const std::size_t before = core->shards()[0].chunks().touched();
  {
    LockHolder holder(core->shards()[0].mutex);
    commit(3000);
  }
  EXPECT_LE(core->shards()[0].chunks().touched(), before + 2);
}

TEST(WriterProgress, KeepsTheRatioBesideALockThatHidesHowManyItemsThereAre) {
  Schema schema;
  [[maybe_unused]] const auto reward = schema.reward("reward");
  Options options = SmallOptions{.capacity_steps = 1000, .chunk_steps = 2000};
  options.rate_limiter =
      SampleToInsertRatio{.samples_per_insert = 1.0, .min_size = 10, .error_buffer = 100.0};
  const auto core = std::make_shared<buffer::BufferCore>(schema, options);
  const std::size_t slot = core->slots().take().value();
  writer::WriterCore writer(core, slot, {.timeout = 0ns});
  writer.begin_episode();
  std::size_t committed = 0;
  {
    LockHolder holder(core->shards()[0].mutex);
    while (committed < 1000 && writer.commit(End::Continue, {}) == CommitStatus::Committed) {
      ++committed;
    }
  }
  EXPECT_GE(committed, 10U) << "below min_size no writer waits";
  EXPECT_LE(committed, 10 + 100 + static_cast<std::size_t>(limiter::kMaxBlock))
      << "min_size, the error buffer, and a block of booked inserts";
}

TEST(SamplerProgress, NoStepThatIsEnoughGoesUnnoticed) {
  constexpr std::uint64_t kSeed = 3;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Rng rng(kSeed);
  const std::size_t rounds = scaled(4000, 100);
  for (std::size_t round = 0; round < rounds; ++round) {
    NumberedBuffer line;
    Sampler sampler = line.replay.sampler();
    std::atomic<bool> started = false;
    SampleStatus status;
    std::jthread learner([&] {
      started.store(true);
      status = sampler.sample(1, {.timeout = 30s}).status();
    });
    yield_while([&] { return !started.load(); });
    // This delay ends at a random moment between the sampler's first look and its sleep.
    for (std::size_t spin = rng.below(2000); spin > 0; --spin) {
      started.load();
    }
    line.append(round);
    learner.join();
    ASSERT_EQ(status.code, SampleStatus::Code::Ok) << "round " << round;
  }
}

}  // namespace
}  // namespace reprise::test
