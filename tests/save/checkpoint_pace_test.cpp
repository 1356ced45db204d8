#include "testing/fixtures/checkpoint_error.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/program/sanitizer.hpp"
#include "testing/test.hpp"

#include <semaphore>

/// A save keeps to its limits of bytes per second and of threads.
namespace reprise::test {
namespace {

TEST(CheckpointPace, TakesAsLongAsItsBytesAllow) {
  using Clock = std::chrono::steady_clock;
  const ScratchDirectory directory;
  NumberedBuffer line;
  line.append_many(0, 100);
  constexpr std::uint64_t kRate = 100'000;
  const auto start = Clock::now();
  const SaveResult saved = line.replay.save(directory.path(), {.bytes_per_second = kRate});
  const std::chrono::duration<double> took = Clock::now() - start;
  EXPECT_GT(saved.chunks_written, 1U);
  // The 64 steps in the buffer have at least the bytes of their fields, so the time for 50 of them
  // is a lower bound on any machine.
  EXPECT_GE(took.count(), 50.0 * static_cast<double>(line.replay.schema().step_bytes()) / kRate);
  EXPECT_EQ(ReplayBuffer::load(directory.path()).buffer.size(), line.replay.size());
}

TEST(CheckpointPace, CountsRecurrentStates) {
  using Clock = std::chrono::steady_clock;
  const ScratchDirectory directory;
  constexpr std::size_t kSteps = 64;
  Schema schema;
  const auto observation = schema.observation<std::uint8_t>("observation");
  const auto state = schema.recurrent_state<float>("state", {256});
  ReplayBuffer replay(schema, {.capacity_steps = kSteps,
                               .window = Sequences{.length = 1, .period = 1},
                               .max_writers = 1,
                               .chunk_steps = 8});
  Writer writer = replay.writer();
  writer.begin_episode();
  writer.now(observation) = 0;
  for (std::size_t i = 0; i < kSteps; ++i) {
    std::ranges::fill(writer.now(state), 1.0F);
    writer.next(observation) = 0;
    ASSERT_EQ(writer.commit(), CommitStatus::Committed);
  }
  constexpr std::uint64_t kRate = 200'000;
  const auto start = Clock::now();
  replay.save(directory.path(), {.bytes_per_second = kRate});
  const std::chrono::duration<double> took = Clock::now() - start;
  EXPECT_GE(took.count(), static_cast<double>(kSteps * 256 * sizeof(float)) / kRate);
}

TEST(CheckpointPace, ASlowSaveIsCancelledWhileItSleeps) {
  const ScratchDirectory directory;
  NumberedBuffer line;
  line.append_many(0, 100);
  std::stop_source stop;
  // At this pace, a save of one chunk takes minutes.
  SaveOptions options{.bytes_per_second = 1, .stop = stop.get_token()};
  std::binary_semaphore written(0);
  options.progress = [&written](const SaveProgress&) { written.release(); };
  std::jthread stopper([&] {
    written.acquire();
    // By then the save most likely sleeps. If it is awake, the test shows less, but does not fail.
    std::this_thread::sleep_for(20ms);
    stop.request_stop();
  });
  EXPECT_EQ(checkpoint_error_of([&] { line.replay.save(directory.path(), options); }).kind(),
            CheckpointError::Kind::Cancelled);
}

/// More threads would cost more: each writes files of its own, which have to be synced.
TEST(CheckpointThreads, AreOneWhereLittleIsNew) {
  if (kThreadSanitizer) {
    GTEST_SKIP() << "the first save is shared out over oneTBB";
  }
  const ScratchDirectory directory;
  constexpr std::size_t kBytes = 8192;
  constexpr std::size_t kSteps = 9000;  // The steps take 70 MiB.
  Schema schema;
  const auto observation = schema.observation<std::uint8_t>("observation", {kBytes});
  ReplayBuffer replay(schema,
                      {.capacity_steps = kSteps, .max_writers = 1, .chunk_steps = 32, .shards = 8});
  Writer writer = replay.writer();
  writer.begin_episode();
  std::ranges::fill(writer.now(observation), std::uint8_t{0});
  const auto append = [&](std::size_t steps) {
    for (std::size_t i = 0; i < steps; ++i) {
      std::ranges::fill(writer.next(observation), static_cast<std::uint8_t>(i));
      ASSERT_EQ(writer.commit(), CommitStatus::Committed);
    }
  };
  append(kSteps);
  replay.save(directory.path());
  append(kSteps / 10);
  std::set<std::thread::id> threads;
  SaveOptions options;
  // Gives other threads time to begin. If the time is too short, the test shows less, but does not
  // fail.
  options.progress = [&threads](const SaveProgress&) {
    threads.insert(std::this_thread::get_id());
    std::this_thread::sleep_for(2ms);
  };
  const SaveResult second = replay.save(directory.path(), options);
  EXPECT_GT(second.chunks_written, 16U);
  EXPECT_GT(second.chunks_reused, 16U);
  EXPECT_EQ(threads.size(), 1U);
}

}  // namespace
}  // namespace reprise::test
