#include "limiter/limiter.hpp"
#include "testing/test.hpp"

namespace reprise::limiter {
namespace {

using Answer = Limiter::Answer;
constexpr std::size_t kCapacity = 1000;
constexpr std::size_t kMany = 500;  ///< More items than any `min_size` of these tests.

/// A limiter for at most `writers` writers.
Limiter limiter_of(const SampleToInsertRatio& ratio, std::size_t writers) {
  return Limiter(ratio, kCapacity, writers);
}

/// Books inserts while the buffer has `items` items. Returns how many; 0 if the writer has to wait.
std::size_t book_inserts(Limiter& limiter, std::size_t items) {
  return limiter.book_inserts([items] { return items; });
}
/// Asks to draw a batch of n while the buffer has `items` items.
Answer admit(Limiter& limiter, std::size_t n, std::size_t items) {
  return limiter.admit_samples(n, [items] { return items; });
}

TEST(LimiterGate, RefusesMinimaOutsideTheCapacity) {
  for (const std::size_t items : {std::size_t{0}, kCapacity + 1}) {
    const std::string value = " is " + std::to_string(items) + ";";
    test::expect_refusal([&] { Limiter(MinSize{items}, kCapacity, 1); },
                         {"MinSize::items" + value, "1 to capacity_steps = 1000"});
    test::expect_refusal([&] { limiter_of({.min_size = items, .error_buffer = 10}, 1); },
                         {"SampleToInsertRatio::min_size" + value, "1 to capacity_steps = 1000"});
  }
  EXPECT_NO_THROW(Limiter(MinSize{kCapacity}, kCapacity, 1));
}

TEST(LimiterGate, RefusesRatiosAndBuffersThatCannotHold) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double ratio : {0.0, -1.0, kInf, kNan}) {
    test::expect_refusal(
        [&] { limiter_of({.samples_per_insert = ratio, .error_buffer = 10}, 1); },
        {"SampleToInsertRatio::samples_per_insert is ", "allowed: finite, above 0"});
  }
  for (const double buffer : {0.0, 2.9}) {
    test::expect_refusal(
        [&] { limiter_of({.samples_per_insert = 3.0, .error_buffer = buffer}, 1); },
        {"SampleToInsertRatio::error_buffer is ", "at least max(1, samples_per_insert) = 3"});
  }
  for (const double buffer : {-1.0, 1.1e15, kInf, kNan}) {
    test::expect_refusal(
        [&] { limiter_of({.samples_per_insert = 3.0, .error_buffer = buffer}, 1); },
        {"SampleToInsertRatio::error_buffer is ", "allowed: 0 to 1e+15"});
  }
  EXPECT_NO_THROW(limiter_of({.samples_per_insert = 3.0, .error_buffer = 3.0}, 1));
}

TEST(LimiterGate, ReturnedSamplesAndInsertsAreNotCounted) {
  Limiter limiter = limiter_of({.samples_per_insert = 1, .min_size = 1, .error_buffer = 10}, 10);
  ASSERT_EQ(book_inserts(limiter, kMany), 1U);
  EXPECT_EQ(admit(limiter, 10, kMany), Answer::Admitted);
  EXPECT_EQ(admit(limiter, 1, kMany), Answer::AheadOfInserts);
  limiter.return_samples(4);
  EXPECT_EQ(admit(limiter, 4, kMany), Answer::Admitted);
  EXPECT_EQ(admit(limiter, 1, kMany), Answer::AheadOfInserts);
  ASSERT_EQ(book_inserts(limiter, kMany), 1U);
  limiter.return_inserts(1);
  EXPECT_EQ(admit(limiter, 1, kMany), Answer::AheadOfInserts);
}

TEST(LimiterGate, RefusesABatchThatCouldNeverBeAdmittedAndShowsTheFormula) {
  const Limiter limiter =
      limiter_of({.samples_per_insert = 2, .min_size = 10, .error_buffer = 100}, 5);
  EXPECT_NO_THROW(limiter.check_batch(190));
  test::expect_refusal([&] { limiter.check_batch(191); },
                       {"batch size is 191;", "2 * error_buffer - samples_per_insert * 5 = 190"});
}

TEST(LimiterGate, ExplainsTheBalanceInWords) {
  Limiter limiter = limiter_of({.samples_per_insert = 2, .min_size = 10, .error_buffer = 100}, 5);
  EXPECT_EQ(limiter.explain(7), "7 of the 10 items that sampling needs");
  // Six blocks of 5 inserts: 20 inserts above the minimum of 10, worth 2 samples each.
  for (int i = 0; i < 6; ++i) {
    (void)book_inserts(limiter, kMany);
  }
  EXPECT_EQ(limiter.explain(kMany),
            "inserts are worth 40 samples ahead of 2 per insert, of 100 allowed");
  (void)admit(limiter, 90, kMany);
  EXPECT_EQ(limiter.explain(kMany), "samples are 50 ahead of 2 per insert, of 100 allowed");
  EXPECT_EQ(Limiter(MinSize{3}, kCapacity, 1).explain(3), "at least 3 items: sampling is free");
}

TEST(LimiterGate, WritersAndSamplersAreNeverHeldAtTheSameTime) {
  const std::size_t seeds = test::scaled(400, 50);
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    test::Rng rng(seed);
    const double ratio = std::exp(8.0 * rng.unit() - 4.0);
    const double buffer = std::max(1.0, ratio) * std::exp(4.0 * rng.unit());
    const std::size_t min_size = rng.between(1, 60);
    Limiter limiter = limiter_of({ratio, min_size, buffer}, rng.between(1, 20));
    // Finds the largest batch that the limiter accepts, which is below twice the buffer.
    std::size_t batch = static_cast<std::size_t>(2.0 * buffer) + 2;
    const auto refused = [&] {
      try {
        limiter.check_batch(batch);
        return false;
      } catch (const std::invalid_argument&) {
        return true;
      }
    };
    while (batch > 0 && refused()) {
      --batch;
    }
    if (batch == 0) {
      continue;
    }
    std::size_t resident = 0;
    // By this chance, the balance drifts to one of its bounds or stays between them.
    const double insert_chance = rng.unit();
    for (int i = 0; i < 2000; ++i) {
      bool sampled = false;
      bool booked = false;
      const auto sample = [&] { sampled = admit(limiter, batch, resident) == Answer::Admitted; };
      const auto book = [&] {
        const std::size_t block = book_inserts(limiter, resident);
        booked = block != 0;
        resident += block;
        if (booked && rng.chance(0.1)) {
          limiter.return_inserts(1);
          --resident;
        }
      };
      if (rng.chance(insert_chance)) {
        book();
        if (!booked) {
          sample();
        }
      } else {
        sample();
        if (!sampled) {
          book();
        }
      }
      ASSERT_TRUE(sampled || booked) << "batch " << batch << ", step " << i;
      if (sampled && rng.chance(0.1)) {
        limiter.return_samples(batch);
      }
      if (rng.chance(0.02)) {
        resident = rng.below(resident + 1);  // Evicts some of the items.
      }
    }
  }
}

TEST(LimiterGate, TheBalanceStaysWithinTheBufferAndNoThreadWaitsForEver) {
  constexpr double kRatio = 2.0;
  constexpr double kBuffer = 100.0;
  constexpr std::size_t kBatch = 16;
  constexpr std::size_t kThreads = 2;
  const std::size_t batches = test::scaled(3000, 500);
  Limiter limiter = limiter_of({kRatio, 1, kBuffer}, kThreads);
  std::atomic<std::uint64_t> samples{0};
  std::atomic<std::uint64_t> inserts{0};
  std::atomic<bool> done{false};
  {
    std::vector<std::jthread> writers;
    std::vector<std::jthread> samplers;
    for (std::size_t t = 0; t < kThreads; ++t) {
      writers.emplace_back([&] {
        while (!done.load()) {
          const std::size_t block = book_inserts(limiter, kMany);
          inserts.fetch_add(block);
          if (block == 0) {
            std::this_thread::yield();
          }
        }
      });
      samplers.emplace_back([&] {
        for (std::size_t i = 0; i < batches;) {
          if (admit(limiter, kBatch, kMany) == Answer::Admitted) {
            samples.fetch_add(kBatch);
            ++i;
          } else {
            std::this_thread::yield();
          }
        }
      });
    }
    samplers.clear();
    done.store(true);
  }
  EXPECT_EQ(samples.load(), kThreads * batches * kBatch);
  // The first insert allows no samples, because `min_size` is 1.
  const double balance =
      static_cast<double>(samples.load()) - kRatio * (static_cast<double>(inserts.load()) - 1.0);
  EXPECT_LE(std::abs(balance), kBuffer);
}

}  // namespace
}  // namespace reprise::limiter
