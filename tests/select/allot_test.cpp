#include "select/allot.hpp"

#include "testing/statistics/chi_square.hpp"
#include "testing/test.hpp"

namespace reprise::select {
namespace {

using Shares = std::vector<double>;

struct Allotted {
  std::vector<double> fractions;
  std::vector<std::size_t> counts;
};

constexpr Spread kSpreads[] = {Spread::Independent, Spread::Stratified};

Allotted allot_draws(const Shares& shares, Spread spread, std::uint64_t seed, std::size_t n) {
  base::Random random(seed);
  std::vector<double> scratch(n);
  Allotted result{std::vector<double>(n, -1.0), std::vector<std::size_t>(shares.size(), 99)};
  allot(shares, spread, random, scratch, result.fractions, result.counts);
  return result;
}

/// Checks what must hold for any shares.
void expect_sound(const Shares& shares, const Allotted& allotted) {
  const std::size_t n = allotted.fractions.size();
  EXPECT_EQ(std::accumulate(allotted.counts.begin(), allotted.counts.end(), std::size_t{0}), n);
  for (std::size_t s = 0; s < shares.size(); ++s) {
    if (shares[s] == 0.0) {
      EXPECT_EQ(allotted.counts[s], 0U) << "shard " << s << " has no share";
    }
  }
  for (const double fraction : allotted.fractions) {
    EXPECT_GE(fraction, 0.0);
    EXPECT_LT(fraction, 1.0);
  }
}

/// The positions of all draws as fractions of the total over all shards, shard by shard.
std::vector<double> positions(const Shares& shares, const Allotted& allotted) {
  std::vector<double> result;
  double start = 0.0;
  for (std::size_t s = 0; s < shares.size(); ++s) {
    for (std::size_t i = 0; i < allotted.counts[s]; ++i) {
      result.push_back(start + allotted.fractions[result.size()] * shares[s]);
    }
    start += shares[s];
  }
  return result;
}

/// Random shares. Some are 0, but not all.
Shares random_shares(test::Rng& rng) {
  Shares shares(rng.between(1, 9));
  std::generate(shares.begin(), shares.end(),
                [&] { return rng.chance(0.4) ? 0.0 : std::exp(20.0 * rng.unit() - 10.0); });
  shares[rng.below(shares.size())] = 1.0;
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) {
    share /= sum;
  }
  return shares;
}

TEST(Allot, CountsAndFractionsAreSoundWhateverTheShares) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    test::Rng rng(seed);
    const Shares shares = random_shares(rng);
    const std::size_t n = rng.between(1, 70);
    for (const Spread spread : kSpreads) {
      expect_sound(shares, allot_draws(shares, spread, seed, n));
    }
    if (testing::Test::HasFailure()) {
      return;
    }
  }
}

TEST(Allot, StratifiedDrawsTakeOnePositionFromEachStratum) {
  constexpr double kRounding = 1e-9;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    test::Rng rng(seed);
    const Shares shares = random_shares(rng);
    const std::size_t n = rng.between(1, 70);
    const std::vector<double> found =
        positions(shares, allot_draws(shares, Spread::Stratified, seed, n));
    for (std::size_t i = 0; i < n; ++i) {
      const auto stratum = static_cast<double>(i);
      ASSERT_GE(found[i], stratum / static_cast<double>(n) - kRounding);
      ASSERT_LE(found[i], (stratum + 1) / static_cast<double>(n) + kRounding);
    }
  }
}

TEST(Allot, WhatRoundingLeavesBeyondTheSumGoesToTheLastShardWithAShare) {
  // The shares lack more than rounding ever leaves, so that some draws fall in that gap.
  const Shares shares{0.25, 0.25, 0.0};
  for (const Spread spread : kSpreads) {
    const Allotted allotted = allot_draws(shares, spread, 7, 64);
    expect_sound(shares, allotted);
    EXPECT_GT(allotted.counts[1], 32U);
    EXPECT_EQ(allotted.fractions.back(), std::nextafter(1.0, 0.0));
  }
}

TEST(Allot, FractionsReachIntoTheLastBitButNotOne) {
  // The second share is so small that a position just below its end, divided by it, rounds to 1.
  const Shares shares{1.0 - 0x1p-53, 0x1p-53};
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    expect_sound(shares, allot_draws(shares, Spread::Stratified, seed, 3));
  }
}

TEST(Allot, BothKindsOfDrawsAreUniformOverTheTotal) {
  constexpr std::size_t kCells = 50;
  constexpr std::uint64_t kSeed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const Shares shares{0.15, 0.0, 0.6, 0.25};
  base::Random random(kSeed);
  for (const Spread spread : kSpreads) {
    std::vector<std::uint64_t> counts(kCells);
    std::vector<double> scratch(7);
    Allotted allotted{std::vector<double>(7), std::vector<std::size_t>(shares.size())};
    for (int call = 0; call < 20000; ++call) {
      allot(shares, spread, random, scratch, allotted.fractions, allotted.counts);
      for (const double position : positions(shares, allotted)) {
        ++counts[std::min(kCells - 1, static_cast<std::size_t>(position * kCells))];
      }
    }
    EXPECT_LT(test::chi_square_z(counts, std::vector<double>(kCells, 1.0 / kCells)), test::kMaxZ);
  }
}

TEST(Allot, SortsUniformPositionsAsAnySortDoes) {
  base::Random random(9);
  for (const std::size_t n : {0U, 1U, 513U, 5000U}) {
    for (const double width : {1.0, 0.001}) {
      std::vector<double> positions(n);
      std::ranges::generate(positions, [&] { return 1.0 - 0x1p-53 - width * random.uniform(); });
      std::vector<double> sorted(n);
      sort_uniform(positions, sorted);
      std::ranges::sort(positions);
      EXPECT_EQ(sorted, positions);
    }
  }
}

}  // namespace
}  // namespace reprise::select
