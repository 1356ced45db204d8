#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"
#include "testing/fixtures/rng.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <vector>

namespace reprise::test {
namespace {

/// Weights reported by one batch against (N * P)^-beta in double precision from the true P.
class ImportanceWeights : public testing::TestWithParam<std::tuple<float, std::size_t>> {
 protected:
  ImportanceWeights() : line_(options()), writer_(line_.replay.writer()) {
    Rng rng(99);
    for (std::uint64_t i = 0; i < 200; ++i) {
      // Powers of two and their halves: their sums are exact, also as floats.
      const auto weight = static_cast<float>(rng.between(1, 4096)) / 64.0F;
      const bool never_drawn = i % 16 == 5;
      weights_.push_back(never_drawn ? 0.0 : static_cast<double>(weight));
      line_.append(writer_, i, static_cast<float>(weights_.back()));
    }
  }

  static Options options() {
    Options options = small_options();
    options.capacity_steps = 256;
    options.shards = std::get<1>(GetParam());
    return options;
  }

  void expect_formula(const SampleOptions& sample) {
    Sampler sampler = line_.replay.sampler({.seed = 31});
    const SampleResult batch = sampler.sample(777, sample);
    ASSERT_TRUE(batch);
    const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    const auto raw = [&](double weight) {
      return std::pow(static_cast<double>(weights_.size()) * weight / total,
                      -static_cast<double>(sample.beta));
    };
    double scale = 1.0;
    if (sample.normalise == Normalise::ByBatch) {
      scale = 0.0;
      for (const std::uint64_t id : batch->now(line_.id)) {
        scale = std::max(scale, raw(weights_[id]));
      }
    } else if (sample.normalise == Normalise::ByBuffer) {
      double least = total;
      for (const double weight : weights_) {
        least = weight > 0.0 ? std::min(least, weight) : least;
      }
      scale = raw(least);
    }
    for (std::size_t i = 0; i < batch->size(); ++i) {
      const double weight = weights_[batch->now(line_.id)[i]];
      ASSERT_GT(weight, 0.0) << "drew an item of weight 0";
      ASSERT_NEAR(batch->probabilities()[i], weight / total, 1e-12 * weight / total);
      const double expected = raw(weight) / scale;
      ASSERT_NEAR(static_cast<double>(batch->weights()[i]), expected, 1e-6 * expected);
      if (sample.normalise != Normalise::Not) {
        ASSERT_LE(batch->weights()[i], 1.0F);
      }
    }
  }

  Line line_;
  Writer writer_;
  std::vector<double> weights_;
};

TEST_P(ImportanceWeights, NormalisedByTheBatchMatchTheFormula) {
  expect_formula({.beta = std::get<0>(GetParam()), .normalise = Normalise::ByBatch});
}

TEST_P(ImportanceWeights, NormalisedByTheBufferMatchTheFormula) {
  expect_formula({.beta = std::get<0>(GetParam()), .normalise = Normalise::ByBuffer});
}

TEST_P(ImportanceWeights, NotNormalisedMatchTheFormula) {
  expect_formula(
      {.beta = std::get<0>(GetParam()), .normalise = Normalise::Not, .draws = Draws::Independent});
}

INSTANTIATE_TEST_SUITE_P(BetasAndShards, ImportanceWeights,
                         testing::Combine(testing::Values(0.0F, 0.1F, 0.4F, 0.5F, 0.73F, 1.0F),
                                          testing::Values(1U, 4U)));

/// N in weights (N * P)^-1 that are not normalised.
std::vector<double> items_counted(const Batch& batch) {
  std::vector<double> counted;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    counted.push_back(1.0 / (static_cast<double>(batch.weights()[i]) * batch.probabilities()[i]));
  }
  return counted;
}

TEST(ImportanceWeightsOfASnapshot, CountTheItemsThatMayBeDrawnWhateverTheyWeigh) {
  for (const std::uint32_t limit : {0U, 1U}) {
    for (const Draws draws : {Draws::Stratified, Draws::Independent, Draws::WithoutReplacement}) {
      SCOPED_TRACE(testing::Message()
                   << "limit " << limit << ", draws " << static_cast<int>(draws));
      Options options = small_options();
      options.max_times_sampled = limit;
      options.shards = 3;
      Line line(options);
      Writer writer = line.replay.writer();
      line.append_many(writer, 0, 40, [&](std::uint64_t i) { return static_cast<float>(i % 8); });
      Sampler sampler = line.replay.sampler();
      for (const std::size_t drawn : {0U, 10U, 20U}) {
        const SampleResult batch =
            sampler.sample(10, {.beta = 1.0F, .normalise = Normalise::Not, .draws = draws});
        ASSERT_TRUE(batch);
        for (const double items : items_counted(*batch)) {
          EXPECT_NEAR(items, limit == 0 ? 40.0 : static_cast<double>(40 - drawn), 1e-4);
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise::test
