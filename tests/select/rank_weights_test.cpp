#include "select/rank_weights.hpp"

#include "testing/test.hpp"

namespace reprise::select {
namespace {

class RankWeightsOf : public testing::TestWithParam<double> {};
INSTANTIATE_TEST_SUITE_P(Alphas, RankWeightsOf,
                         testing::Values(0.0, 0.3, 0.7, 1.0, 1.0 + 1e-9, 2.0, 8.0));

double brute_mean(double alpha, std::uint64_t before, std::uint64_t count) {
  double sum = 0.0;
  for (std::uint64_t rank = before + count; rank > before; --rank) {
    sum += std::pow(static_cast<double>(rank), -alpha);
  }
  return sum / static_cast<double>(count);
}

TEST_P(RankWeightsOf, AreTheMeansOfThePowersOfTheRanks) {
  const RankWeights weights(GetParam());
  const double tolerance = GetParam() <= 2.0 ? 2e-5 : 1e-3;
  for (const std::uint64_t before : {0U, 1U, 2U, 31U, 127U, 128U, 129U, 1000U, 65535U, 1000000U}) {
    for (const std::uint64_t count :
         {1U, 2U, 7U, 8U, 16U, 17U, 100U, 125U, 126U, 5000U, 1000000U}) {
      const double exact = brute_mean(GetParam(), before, count);
      EXPECT_NEAR(weights.mean(before, count), exact, tolerance * exact)
          << before << " + " << count;
    }
  }
}

TEST_P(RankWeightsOf, AreExactForTheFirstRanks) {
  const RankWeights weights(GetParam());
  for (std::uint64_t before = 0; before < RankWeights::kExact; ++before) {
    EXPECT_DOUBLE_EQ(weights.mean(before, 1),
                     std::pow(static_cast<double>(before + 1), -GetParam()));
  }
}

TEST_P(RankWeightsOf, NeverRiseWithTheRankUpToTheLargestBuffers) {
  const RankWeights weights(GetParam());
  double last = 2.0;
  for (double rank = 1.0; rank < 0x1p32; rank = std::ceil(rank * 1.003)) {
    const double weight = weights.mean(static_cast<std::uint64_t>(rank), 1);
    EXPECT_LE(weight, last) << rank;
    EXPECT_GT(weight, 0.0) << rank;
    last = weight;
  }
}

}  // namespace
}  // namespace reprise::select
