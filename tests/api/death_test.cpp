#include "testing/test.hpp"

/// Actors that throw, end or hang at the worst moment.
namespace reprise::test {
namespace {

struct SimulatorError : std::exception {};

/// The part of an append after which the simulator throws.
enum class Moment : std::uint8_t { Begun, Observed, Acted, Rewarded, NextObserved };
constexpr Moment kMoments[] = {Moment::Begun, Moment::Observed, Moment::Acted, Moment::Rewarded,
                               Moment::NextObserved};

/// What happens to the writer after the exception.
enum class Recovery : std::uint8_t { WriterDestroyed, EpisodeRestarted, StepRewritten };
constexpr Recovery kRecoveries[] = {Recovery::WriterDestroyed, Recovery::EpisodeRestarted,
                                    Recovery::StepRewritten};

constexpr std::uint64_t kNever = 999'999;  ///< The number of a step that is not committed.

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
    writer.now(line.id) = kNever;
  }
  if (moment >= Moment::Acted) {
    writer.now(line.action) = kNever;
  }
  if (moment >= Moment::Rewarded) {
    writer.now(line.reward) = 1e30F;
  }
  if (moment >= Moment::NextObserved) {
    writer.next(line.id) = kNever;
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

TEST_P(SimulatorThrows, BetweenAnyTwoCallsOfAnyAppendAndOnlyThatStepIsLost) {
  // The steps take three chunks, so every row of a chunk is tried.
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
        ASSERT_GT(batch->discounts()[i], 0.0F) << "truncated is not terminated";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Afterwards, SimulatorThrows, testing::ValuesIn(kRecoveries));

TEST(Death, OfManyActorsAtRandomMomentsLeaksNoChunkAndLosesNoStep) {
  // REPRISE_TEST_SCALE=100 makes it 10^5 deaths.
  const std::size_t deaths = scaled(1000, 60);
  NumberedBuffer line(
      SmallOptions{.window = Transitions{.n_step = 3, .discount = 0.5F}, .shards = 2});
  std::atomic<std::uint64_t> committed = 0;
  std::atomic<bool> stop = false;
  const auto live = [&](std::uint64_t seed) {
    Rng rng(seed);
    try {
      // No append may have to wait long; leaked chunks would soon be missed.
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
  // One writer can fill all chunks at once, except the few that hold items.
  Writer writer = line.replay.writer({.timeout = 0ns});
  for (std::uint64_t number = 0; number < 10 * stats.chunks * 8; ++number) {
    ASSERT_EQ(line.append(writer, number), CommitStatus::Committed);
  }
}

TEST(Death, AThreadMayExitWhileItOwnsAWriterThatAnotherGoesOnWith) {
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

TEST(Death, AThreadMayExitWhileItOwnsASamplerThatAnotherGoesOnWith) {
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
    ASSERT_TRUE(std::ranges::equal(keys, expected->keys())) << "the generator moved with it";
  }
  sampler.reset();
  EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
}

TEST(Death, AWriterThatHangsForTheWholeRunCostsNoMemoryAndStallsNobody) {
  NumberedBuffer line(
      SmallOptions{.window = Transitions{.n_step = 3, .discount = 0.5F}, .shards = 2});
  std::vector<Writer> hung;
  for (int i = 0; i < 3; ++i) {
    hung.push_back(line.replay.writer());
    line.append_many(hung.back(), 1000 * static_cast<std::uint64_t>(i),
                     3 + 4 * static_cast<std::size_t>(i));
    hung.back().now(line.action) = kNever;
  }
  const std::uint64_t by_the_hung = 3 + 7 + 11;
  Writer writer = line.replay.writer({.timeout = 0ns});
  Sampler sampler = line.replay.sampler();
  std::size_t settled = 0;
  const std::uint64_t steps = scaled(20'000, 3000);
  for (std::uint64_t number = 0; number < steps; ++number) {
    ASSERT_EQ(line.append(writer, number), CommitStatus::Committed);
    if (number % 100 == 99) {
      const SampleResult batch = require_batch(sampler.sample(16, kNoWait));
      expect_valid_windows(line, *batch);
      const Stats stats = line.replay.stats();
      settled = number == 999 ? stats.touched_bytes : settled;
      ASSERT_TRUE(number < 999 || stats.touched_bytes == settled)
          << "memory grows: " << stats.touched_bytes << " bytes at step " << number;
      ASSERT_LE(stats.resident_steps, 64U + 8U);
    }
  }
  EXPECT_EQ(line.replay.size(), 64U);
  // Two shards evict in turn, so the ages of their oldest items differ by at most a chunk each.
  EXPECT_GE(line.numbers().front(), steps - 64 - 2 * 8) << "the hung ones' items went too";
  EXPECT_EQ(line.numbers().back(), steps - 3) << "two items are open";
  // Writers that wake up continue where they were.
  for (Writer& late : hung) {
    const std::uint64_t number = late.now(line.id);
    ASSERT_EQ(line.append(late, number), CommitStatus::Committed);
  }
  hung.clear();
  EXPECT_EQ(line.replay.stats().committed_steps, steps + by_the_hung + 3);
  EXPECT_EQ(line.replay.size(), 64U);
  expect_steps_add_up(line.replay);
}

}  // namespace
}  // namespace reprise::test
