#include "limiter/limiter.hpp"
#include "testing/test.hpp"

// Tests `ReplayBuffer::set_samples_per_insert`.
namespace reprise::test {
namespace {

using limiter::Limiter;
using Answer = Limiter::Answer;

/// A model of the limiter, which adds up how many samples each step allowed at the ratio at which
/// the step was booked. Ratios are multiples of 1 / 8, so that doubles are exact.
struct LimiterModel {
  SampleToInsertRatio ratio;
  double writers = 1.0;
  double samples = 0.0;
  double allowed_samples = 0.0;
  std::size_t inserts = 0;

  /// Inserts that a writer books at a time. Those of all writers are worth half the error buffer.
  [[nodiscard]] std::size_t block() const {
    const double fair = ratio.error_buffer / (2.0 * writers * ratio.samples_per_insert);
    return static_cast<std::size_t>(std::clamp(fair, 1.0, 64.0));
  }
  /// The number of samples that the next `steps` steps allow. The first min_size steps allow none.
  [[nodiscard]] double samples_allowed_by(std::size_t steps) const {
    const std::size_t counted =
        std::max(inserts + steps, ratio.min_size) - std::max(inserts, ratio.min_size);
    return ratio.samples_per_insert * static_cast<double>(counted);
  }
  [[nodiscard]] bool holds_writers() const {
    return samples - allowed_samples - samples_allowed_by(block()) < -ratio.error_buffer;
  }
};

TEST(ChangedRatio, CountsEachStepAtTheRatioAtWhichItWasBooked) {
  const std::size_t seeds = scaled(300, 40);
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    LimiterModel model{.ratio = {.samples_per_insert = 1.0,
                                 .min_size = rng.between(1, 20),
                                 .error_buffer = static_cast<double>(rng.between(1, 80))},
                       .writers = static_cast<double>(rng.between(1, 4))};
    const SampleToInsertRatio& ratio = model.ratio;
    Limiter limiter(ratio, 1000, static_cast<std::size_t>(model.writers));
    for (int i = 0; i < 1000; ++i) {
      if (rng.chance(0.1)) {
        const double max_ratio = ratio.error_buffer;
        model.ratio.samples_per_insert =
            static_cast<double>(rng.between(1, static_cast<std::size_t>(8 * max_ratio))) / 8.0;
        limiter.set_samples_per_insert(ratio.samples_per_insert);
      }
      const std::size_t batch = rng.between(1, static_cast<std::size_t>(2 * ratio.error_buffer));
      const std::size_t items = model.inserts;
      if (rng.chance(0.5)) {
        const std::size_t block = model.block();
        const bool passes = model.inserts + block <= ratio.min_size || items < ratio.min_size ||
                            !model.holds_writers();
        ASSERT_EQ(limiter.book_inserts([&] { return items; }), passes ? block : 0);
        model.allowed_samples += passes ? model.samples_allowed_by(block) : 0;
        model.inserts += passes ? block : 0;
      } else if (items >= ratio.min_size) {
        const bool passes = model.samples + static_cast<double>(batch) - model.allowed_samples <=
                                ratio.error_buffer ||
                            model.holds_writers();
        ASSERT_EQ(limiter.admit_samples(batch, [&] { return items; }),
                  passes ? Answer::Admitted : Answer::AheadOfInserts);
        model.samples += passes ? static_cast<double>(batch) : 0;
      }
      if (model.inserts >= ratio.min_size) {
        ASSERT_EQ(limiter.balance().ahead, model.samples - model.allowed_samples);
      }
      ASSERT_EQ(limiter.balance().samples_per_insert, ratio.samples_per_insert);
      ASSERT_EQ(limiter.counts().inserts, model.inserts);
    }
  }
}

TEST(ChangedRatio, TheBalanceStaysWithinTheBufferWhileThreadsBookAndTheRatioChanges) {
  constexpr double kBuffer = 100.0;
  constexpr std::size_t kBatch = 16;
  constexpr std::array<double, 4> kRatios = {0.5, 1.0, 4.0, 2.0};
  const std::size_t batches = scaled(3000, 500);
  Limiter limiter({SampleToInsertRatio{.samples_per_insert = 1.0, .error_buffer = kBuffer}}, 1000,
                  2);
  std::atomic<bool> done{false};
  {
    std::vector<std::jthread> others;
    std::vector<std::jthread> samplers;
    start(others, 2, [&] {
      while (!done.load()) {
        if (limiter.book_inserts([] { return std::size_t{500}; }) == 0) {
          std::this_thread::yield();
        }
      }
    });
    start(others, 1, [&] {
      for (std::size_t i = 0; !done.load(); ++i) {
        limiter.set_samples_per_insert(kRatios[i % kRatios.size()]);
        std::this_thread::yield();
      }
    });
    start(samplers, 2, [&] {
      for (std::size_t i = 0; i < batches;) {
        if (limiter.admit_samples(kBatch, [] { return std::size_t{500}; }) == Answer::Admitted) {
          ++i;
        } else {
          std::this_thread::yield();
        }
      }
    });
    samplers.clear();
    done.store(true);
  }
  const auto [inserts, samples] = limiter.counts();
  const double ahead = limiter.balance().ahead;
  EXPECT_EQ(samples, 2 * batches * kBatch);
  EXPECT_LE(std::abs(ahead), kBuffer);
  // The first step allows no samples, because `min_size` is 1. Each other step allows as many as
  // one of the ratios, which are 0.5 to 4.
  const double counted = static_cast<double>(inserts) - 1.0;
  EXPECT_GE(static_cast<double>(samples) - ahead, 0.5 * counted);
  EXPECT_LE(static_cast<double>(samples) - ahead, 4.0 * counted);
}

TEST(ChangedRatio, CausesNoBurstAndNoPauseOfSamples) {
  constexpr double kBuffer = 16.0;
  for (const auto& [before, after] : {std::pair{4.0, 0.5}, std::pair{0.5, 4.0}}) {
    NumberedBuffer line(
        SmallOptions{.capacity_steps = 4000,
                     .rate_limiter = SampleToInsertRatio{
                         .samples_per_insert = before, .min_size = 1, .error_buffer = kBuffer}});
    Writer writer = line.replay.writer({.timeout = 0ns});
    Sampler sampler = line.replay.sampler();
    std::uint64_t samples = 0;
    // Appends steps, draws whatever the limiter lets through, and returns the number of samples.
    const auto run = [&](std::uint64_t first, std::size_t steps) {
      const std::uint64_t earlier = samples;
      for (std::uint64_t i = first; i < first + steps; ++i) {
        EXPECT_EQ(line.append(writer, i), CommitStatus::Committed) << i;
        while (sampler.sample(4, kNoWait)) {
          samples += 4;
        }
      }
      return static_cast<double>(samples - earlier);
    };
    // The balance lies between -kBuffer and kBuffer before and after the run.
    EXPECT_NEAR(run(0, 200), before * 200, 2 * kBuffer);
    line.replay.set_samples_per_insert(after);
    EXPECT_NEAR(run(200, 200), after * 200, 2 * kBuffer);
  }
}

TEST(ChangedRatio, WakesAWriterThatTheOldRatioHeld) {
  NumberedBuffer line(
      SmallOptions{.rate_limiter = SampleToInsertRatio{
                       .samples_per_insert = 5.0, .min_size = 1, .error_buffer = 32.0}});
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 7);  // These steps allow 30 samples, and the next one 5 more.
  std::jthread actor(
      [&] { EXPECT_EQ(line.append(writer, 7), CommitStatus::Committed) << "the ratio is lower"; });
  yield_while([&] { return line.replay.stats().writers_for_limiter.waiting_now == 0; });
  line.replay.set_samples_per_insert(1.0);
  actor.join();
}

/// With the higher ratio, new batches of this size are refused: such a batch and a writer's step
/// would wait for each other. A batch that waits already is let through.
TEST(ChangedRatio, LetsABatchThroughThatWaitedAndIsTooLargeForTheNewRatio) {
  NumberedBuffer line(
      SmallOptions{.rate_limiter = SampleToInsertRatio{
                       .samples_per_insert = 1.0, .min_size = 1, .error_buffer = 16.0}});
  line.append_many(0, 15);
  std::jthread learner([&] {
    const SampleResult batch = as_lvalue(line.replay.sampler()).sample(31);
    EXPECT_TRUE(batch) << batch.status().message();
  });
  yield_while([&] { return line.replay.stats().samplers_for_limiter.waiting_now == 0; });
  line.replay.set_samples_per_insert(16.0);
  learner.join();
  expect_refusal([&] { (void)as_lvalue(line.replay.sampler()).sample(31, kNoWait); },
                 {"batch size is 31", "2 * error_buffer - samples_per_insert * 1 = 16"});
}

TEST(ChangedRatio, IsRefusedIfTheLimiterCannotHoldIt) {
  NumberedBuffer line(SmallOptions{
      .max_times_sampled = 3,
      .rate_limiter =
          SampleToInsertRatio{.samples_per_insert = 2.0, .min_size = 1, .error_buffer = 4.0}});
  line.append_many(0, 2);
  const std::string before = line.replay.stats().limiter;
  const auto refused = [&](double ratio, std::initializer_list<std::string_view> words) {
    expect_refusal([&] { line.replay.set_samples_per_insert(ratio); }, words);
    EXPECT_EQ(line.replay.stats().limiter, before);
  };
  refused(0.0, {"samples_per_insert is 0", "finite, above 0"});
  refused(std::numeric_limits<double>::quiet_NaN(), {"samples_per_insert is", "finite, above 0"});
  refused(3.5, {"samples_per_insert is 3.5", "max_times_sampled = 3"});
  refused(4.5, {"samples_per_insert is 4.5", "at most error_buffer = 4"});
  NumberedBuffer without_ratio;
  expect_refusal([&] { without_ratio.replay.set_samples_per_insert(1.0); },
                 {"set_samples_per_insert", "rate_limiter is a MinSize", "SampleToInsertRatio"});
}

}  // namespace
}  // namespace reprise::test
