#include "testing/test.hpp"

/// Tests of actors that throw, end or hang in the middle of a step.
namespace reprise::test {
namespace {

struct SimulatorError : std::exception {};

/// The call of an append after which the simulator throws.
enum class Moment : std::uint8_t { Begun, Observed, Acted, Rewarded, NextObserved };
constexpr Moment kMoments[] = {Moment::Begun, Moment::Observed, Moment::Acted, Moment::Rewarded,
                               Moment::NextObserved};

/// What happens to the writer after the exception.
enum class Recovery : std::uint8_t { WriterDestroyed, EpisodeRestarted, StepRewritten };
constexpr Recovery kRecoveries[] = {Recovery::WriterDestroyed, Recovery::EpisodeRestarted,
                                    Recovery::StepRewritten};

constexpr std::uint64_t kUncommitted = 999'999;  ///< A number in no committed step.

Options n_step_options() {
  return SmallOptions{.window = Transitions{.n_step = 3, .discount = 0.5F}};
}

/// Writes wrong values for a step, up to the given moment, and throws.
[[noreturn]] void throw_mid_step(NumberedBuffer& line, Writer& writer, Moment moment) {
  const bool first = !writer.in_episode();
  if (first) {
    writer.begin_episode();
  }
  if (moment >= Moment::Observed && first) {
    writer.now(line.id) = kUncommitted;
  }
  if (moment >= Moment::Acted) {
    writer.now(line.action) = kUncommitted;
  }
  if (moment >= Moment::Rewarded) {
    writer.now(line.reward) = 1e30F;
  }
  if (moment >= Moment::NextObserved) {
    writer.next(line.id) = kUncommitted;
  }
  throw SimulatorError();
}

/// Expects that every item begins with a committed step and its window lies in that step's episode.
void expect_valid_windows(const NumberedBuffer& line, const Batch& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::uint64_t number = batch.now(line.id)[i];
    ASSERT_EQ(batch.now(line.action)[i], number);
    ASSERT_EQ(batch.next(line.id)[i], number + batch.lengths()[i]);
    float returns = 0.0F;
    float discount = 1.0F;
    for (std::uint32_t k = 0; k < batch.lengths()[i]; ++k) {
      returns += discount * static_cast<float>(number + k);
      discount *= 0.5F;
    }
    ASSERT_EQ(batch.returns(line.reward)[i], returns);
    ASSERT_TRUE(batch.discounts()[i] == discount || batch.discounts()[i] == 0.0F);
  }
}

class SimulatorThrows : public testing::TestWithParam<Recovery> {};

TEST_P(SimulatorThrows, BetweenAnyTwoCallsOfAnAppendAndLosesOnlyThatStep) {
  // The steps fill three chunks, so the simulator throws at every row of a chunk.
  constexpr std::uint64_t kSteps = 24;
  for (std::uint64_t committed = 0; committed < kSteps; ++committed) {
    for (const Moment moment : kMoments) {
      SCOPED_TRACE(testing::Message()
                   << committed << " steps committed, moment " << static_cast<int>(moment));
      NumberedBuffer line(n_step_options());
      std::optional<Writer> writer(line.replay.writer());
      line.append_many(*writer, 0, committed);
      EXPECT_THROW(throw_mid_step(line, *writer, moment), SimulatorError);

      std::uint64_t steps = committed;
      switch (GetParam()) {
        case Recovery::WriterDestroyed:
          writer.reset();
          break;
        case Recovery::EpisodeRestarted:
          writer->begin_episode();
          break;
        case Recovery::StepRewritten:
          writer->now(line.id) = committed;
          line.append(*writer, committed, End::Truncated);
          ++steps;
      }
      ASSERT_EQ(line.replay.stats().committed_steps, steps);
      ASSERT_EQ(line.replay.size(), steps);
      ASSERT_EQ(line.numbers(), number_range(0, steps));
      expect_steps_add_up(line.replay);
      if (steps == 0) {
        continue;
      }
      Sampler sampler = line.replay.sampler();
      const SampleResult batch = require_batch(sampler.sample(4 * steps, kNoWait));
      expect_valid_windows(line, *batch);
      for (std::size_t i = 0; i < batch->size(); ++i) {
        const std::uint64_t number = batch->now(line.id)[i];
        ASSERT_EQ(batch->lengths()[i], std::min<std::uint64_t>(3, steps - number));
        ASSERT_GT(batch->discounts()[i], 0.0F) << "the last step was truncated, not terminated";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Afterwards, SimulatorThrows, testing::ValuesIn(kRecoveries));

TEST(Death, OfManyActorsAtRandomMomentsLeaksNoChunkAndLosesNoStep) {
  // With REPRISE_TEST_SCALE=100, 10^5 actors die.
  const std::size_t deaths = scaled(1000, 60);
  NumberedBuffer line(
      SmallOptions{.window = Transitions{.n_step = 3, .discount = 0.5F}, .shards = 2});
  std::atomic<std::uint64_t> committed = 0;
  std::atomic<bool> stop = false;
  const auto live = [&](std::uint64_t seed) {
    Rng rng(seed);
    try {
      // No append may have to wait long. If chunks leaked, writers would soon find none.
      Writer writer = line.replay.writer({.timeout = 30s});
      for (std::uint64_t step = rng.below(30); step-- > 0;) {
        const End end = rng.chance(0.1) ? End::Terminated : End::Continue;
        const std::uint64_t number = writer.in_episode() ? writer.now(line.id) : rng.below(1000);
        ASSERT_EQ(line.append(writer, number, end), CommitStatus::Committed) << "seed " << seed;
        committed.fetch_add(1, std::memory_order_relaxed);
      }
      throw_mid_step(line, writer, kMoments[rng.below(std::size(kMoments))]);
    } catch (const SimulatorError&) {
    }
  };
  std::jthread learner([&] {
    Sampler sampler = line.replay.sampler();
    while (!stop.load(std::memory_order_relaxed)) {
      if (const SampleResult batch = sampler.sample(16, kNoWait)) {
        expect_valid_windows(line, *batch);
      }
    }
  });
  std::vector<std::jthread> hosts;
  constexpr std::size_t kHosts = 3;
  start(hosts, kHosts, [&](std::size_t host) {
    for (std::size_t death = host; death < deaths; death += kHosts) {
      std::thread(live, death).join();
    }
  });
  hosts.clear();
  stop.store(true, std::memory_order_relaxed);
  learner.join();
  EXPECT_EQ(line.replay.size(), std::min<std::uint64_t>(64, committed.load()));
  const Stats stats = line.replay.stats();
  EXPECT_EQ(stats.committed_steps, committed.load());
  EXPECT_EQ(stats.writers, 0U);
  EXPECT_EQ(stats.retired_pinned, 0U);
  expect_steps_add_up(line.replay);
  // One writer can still reuse all chunks of the buffer.
  Writer writer = line.replay.writer({.timeout = 0ns});
  for (std::uint64_t number = 0; number < 10 * stats.chunks * 8; ++number) {
    ASSERT_EQ(line.append(writer, number), CommitStatus::Committed);
  }
}

TEST(Death, AThreadMayExitAndAnotherThreadGoOnWithItsWriter) {
  NumberedBuffer line(n_step_options());
  std::optional<Writer> writer;
  std::uint64_t number = 0;
  for (int life = 0; life < 50; ++life) {
    std::thread([&] {
      Writer mine = writer ? std::move(*writer) : line.replay.writer();
      line.append_many(mine, number, 7);
      number += 7;
      writer = std::move(mine);
    }).join();
  }
  std::thread([&] { writer.reset(); }).join();
  EXPECT_EQ(line.replay.size(), 64U);
  EXPECT_EQ(line.numbers(), number_range(number - 64, number));
  EXPECT_EQ(line.replay.stats().writers, 0U);
  expect_steps_add_up(line.replay);
}

TEST(Death, AThreadMayExitAndAnotherThreadGoOnWithItsSampler) {
  NumberedBuffer line(n_step_options());
  line.append_many(0, 100);
  Sampler untouched = line.replay.sampler({.seed = 3});
  std::optional<Sampler> sampler;
  for (int life = 0; life < 20; ++life) {
    std::vector<ItemKey> keys;
    std::thread([&] {
      Sampler mine = sampler ? std::move(*sampler) : line.replay.sampler({.seed = 3});
      const SampleResult batch = require_batch(mine.sample(32, kNoWait));
      keys.assign(batch->keys().begin(), batch->keys().end());
      sampler = std::move(mine);
    }).join();
    const SampleResult expected = require_batch(untouched.sample(32, kNoWait));
    ASSERT_TRUE(std::ranges::equal(keys, expected->keys()))
        << "the sampler keeps the state of its random generator";
  }
  sampler.reset();
  EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
}

TEST(Death, WritersThatHangDoNotMakeMemoryGrowAndBlockNoOther) {
  NumberedBuffer line(
      SmallOptions{.window = Transitions{.n_step = 3, .discount = 0.5F}, .shards = 2});
  std::vector<Writer> hung;
  for (int i = 0; i < 3; ++i) {
    hung.push_back(line.replay.writer());
    line.append_many(hung.back(), 1000 * static_cast<std::uint64_t>(i),
                     3 + 4 * static_cast<std::size_t>(i));
    hung.back().now(line.action) = kUncommitted;
  }
  const std::uint64_t steps_of_hung = 3 + 7 + 11;
  Writer writer = line.replay.writer({.timeout = 0ns});
  Sampler sampler = line.replay.sampler();
  std::size_t touched_bytes = 0;
  const std::uint64_t steps = scaled(20'000, 3000);
  for (std::uint64_t number = 0; number < steps; ++number) {
    ASSERT_EQ(line.append(writer, number), CommitStatus::Committed);
    if (number % 100 == 99) {
      const SampleResult batch = require_batch(sampler.sample(16, kNoWait));
      expect_valid_windows(line, *batch);
      const Stats stats = line.replay.stats();
      if (number == 999) {  // From here on, writers reuse chunks.
        touched_bytes = stats.touched_bytes;
      }
      ASSERT_TRUE(number < 999 || stats.touched_bytes == touched_bytes)
          << "memory grows: " << stats.touched_bytes << " bytes at step " << number;
      ASSERT_LE(stats.resident_steps, 64U + 8U);
    }
  }
  EXPECT_EQ(line.replay.size(), 64U);
  // Two shards evict in turn, so the ages of their oldest items differ by at most a chunk each.
  EXPECT_GE(line.numbers().front(), steps - 64 - 2 * 8)
      << "items of the hung writers are evicted too";
  EXPECT_EQ(line.numbers().back(), steps - 3)
      << "the windows of the last two steps are not complete";
  // The hung writers go on where they were.
  for (Writer& resumed : hung) {
    const std::uint64_t number = resumed.now(line.id);
    ASSERT_EQ(line.append(resumed, number), CommitStatus::Committed);
  }
  hung.clear();
  EXPECT_EQ(line.replay.stats().committed_steps, steps + steps_of_hung + 3);
  EXPECT_EQ(line.replay.size(), 64U);
  expect_steps_add_up(line.replay);
}

}  // namespace
}  // namespace reprise::test
