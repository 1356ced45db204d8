#include <reprise/remote.hpp>

#include "testing/test.hpp"

namespace reprise::test {
namespace {

constexpr SampleToInsertRatio kRatio{
    .samples_per_insert = 4.0, .min_size = 100, .error_buffer = 200.0};

TEST(ShardedLimiter, RefusesAQueueAndBatchesThatCouldNeverBeAdmitted) {
  EXPECT_THROW(ShardedLimiter(Queue{.size = 4}, 100, 4), std::invalid_argument);
  ShardedLimiter limiter(kRatio, 10'000, 4);
  EXPECT_THROW((void)limiter.admit(100'000), std::invalid_argument);
  EXPECT_THROW((void)limiter.admit(0), std::invalid_argument);
}

TEST(ShardedLimiter, WithoutARatioHoldsNoWriter) {
  ShardedLimiter limiter(MinSize{.items = 10}, 10'000, 4);
  EXPECT_GT(limiter.credit(), 1U << 20U) << "without a limit";
  EXPECT_FALSE(limiter.admit(5)) << "10 items are missing";
  limiter.set_items(0, 4);
  limiter.set_items(2, 6);
  EXPECT_TRUE(limiter.admit(5));
}

/// Nine tenths of the steps are appended to one shard. The balance of all shards' steps and samples
/// must stay within its bound, and writers and learner must not wait for each other for ever.
TEST(ShardedLimiter, HoldsTheRatioOverAllShardsIfTheShardsAreUnequal) {
  ShardedLimiter limiter(kRatio, 100'000, 4);
  Rng random(3);
  std::array<std::uint64_t, 3> items{};
  std::array<std::size_t, 4> credit{};
  double inserted = 0.0;
  double sampled = 0.0;
  std::size_t largest_credit = 0;
  int refusals = 0;  // Calls since the last step or batch.
  for (std::size_t i = 0; i < scaled(200'000, 20'000); ++i) {
    bool admitted = false;
    if (random.next() % 2 == 0) {
      std::size_t& own = credit[random.next() % credit.size()];
      if (own == 0) {
        own = limiter.credit();
        largest_credit = std::max(largest_credit, own);
      }
      if (own != 0) {
        --own;
        inserted += 1.0;
        const std::size_t shard = random.next() % 10 == 0 ? 1 + random.next() % 2 : 0;
        limiter.set_items(shard, ++items[shard]);
        admitted = true;
      }
    } else if (limiter.admit(32)) {
      sampled += 32.0;
      admitted = true;
    }
    refusals = admitted ? 0 : refusals + 1;
    ASSERT_LT(refusals, 200) << "writers and learner wait for each other";
    const double balance =
        sampled - kRatio.samples_per_insert * (inserted - static_cast<double>(kRatio.min_size));
    // Each of the writers may hold credit that the limiter counts as inserted.
    const double slack =
        kRatio.samples_per_insert * static_cast<double>(credit.size() * largest_credit);
    if (inserted > static_cast<double>(kRatio.min_size)) {
      ASSERT_LE(balance, kRatio.error_buffer + slack);
      ASSERT_GE(balance, -kRatio.error_buffer - slack);
    }
  }
  EXPECT_GT(sampled, 0.0);
}

TEST(ShardedLimiter, AdmitsStepsAndBatchesAgainAfterAShardIsLostAtEitherBound) {
  for (const bool samples_ahead : {false, true}) {
    ShardedLimiter limiter(kRatio, 100'000, 4);
    std::uint64_t items = 0;
    const auto insert = [&] {
      const std::size_t credit = limiter.credit();
      items += credit;
      limiter.set_items(0, items);
      return credit != 0;
    };
    while (insert()) {
    }
    if (samples_ahead) {
      while (limiter.admit(16)) {
      }
    }
    EXPECT_NE(limiter.admit(16), samples_ahead);
    // The shard with all items is lost. The limiter admits steps until there are enough.
    limiter.set_items(0, 0);
    EXPECT_FALSE(limiter.admit(16));
    for (items = 0; items < kRatio.min_size;) {
      ASSERT_TRUE(insert());
    }
    bool sampled = false;
    for (int i = 0; i < 1000 && !sampled; ++i) {
      sampled = limiter.admit(16);
      if (!sampled) {
        ASSERT_TRUE(insert());
      }
    }
    EXPECT_TRUE(sampled);
  }
}

TEST(ShardedLimiter, AdmitsWholeShipmentsWithinTheBoundOfSingleSteps) {
  ShardedLimiter limiter(kRatio, 100'000, 4);
  limiter.restore(1000, 3600);  // These counts balance: 3600 = 4 * (1000 - 100).
  limiter.set_items(0, 1000);
  EXPECT_EQ(limiter.balance().ahead, 0.0);
  EXPECT_THROW((void)limiter.insert(51), std::invalid_argument);
  std::size_t inserted = 0;
  while (limiter.insert(7)) {
    inserted += 7;
  }
  // 50 inserts, worth 4 samples each, reach the bound of -200. The limiter books inserts in blocks,
  // so it may refuse earlier.
  EXPECT_GE(inserted, 40U);
  EXPECT_LE(inserted, 50U);
  EXPECT_GE(limiter.inserts(), 1000 + inserted);
  const std::uint64_t before = limiter.inserts();
  EXPECT_FALSE(limiter.insert(50));
  EXPECT_EQ(limiter.inserts(), before) << "a refused shipment is not counted";
  EXPECT_TRUE(limiter.admit(32));
  EXPECT_TRUE(limiter.insert(7));
  EXPECT_EQ(limiter.samples(), 3632U);
}

TEST(ShardedLimiter, DoesNotCountReturnedCreditAndReturnedBatches) {
  ShardedLimiter limiter(kRatio, 100'000, 4);
  limiter.set_items(0, 1000);
  while (limiter.credit() != 0) {
  }
  const double bound = limiter.balance().ahead;
  limiter.return_credit(50);
  EXPECT_NEAR(limiter.balance().ahead, bound + 4.0 * 50, 1e-9);
  EXPECT_GT(limiter.credit(), 0U);
  const double before = limiter.balance().ahead;
  ASSERT_TRUE(limiter.admit(32));
  limiter.return_samples(32);
  EXPECT_EQ(limiter.balance().ahead, before);
}

TEST(ShardedLimiter, RefusesCountsBelowZeroAndAboveTheLargestThatItCanHold) {
  ShardedLimiter limiter(kRatio, 100'000, 4);
  EXPECT_THROW(limiter.return_credit(1), std::invalid_argument);
  EXPECT_THROW(limiter.return_samples(1), std::invalid_argument);
  EXPECT_THROW(limiter.restore((std::uint64_t{1} << 47U) + 1, 0), std::invalid_argument);
  EXPECT_EQ(limiter.inserts(), 0U);
  limiter.restore(std::uint64_t{1} << 47U, 5);
  EXPECT_EQ(limiter.inserts(), std::uint64_t{1} << 47U);
  limiter.return_samples(5);
  EXPECT_EQ(limiter.samples(), 0U);
  ShardedLimiter without_ratio(MinSize{.items = 10}, 10'000, 4);
  without_ratio.return_credit(without_ratio.credit());
}

}  // namespace
}  // namespace reprise::test
