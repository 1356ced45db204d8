#include <reprise/remote.hpp>

#include "remote/shards.hpp"
#include "select/allot.hpp"
#include "testing/laws/draw_counts.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// The exact count of a shard is its share of n, which need not be a whole number. The mean is over
/// all random offsets of the allotment.
TEST(AllotCounts, AreTheExactCountsRoundedUpOrDownAndExactInTheMean) {
  Rng random(2);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> shares(1 + random.next() % 6);
    for (double& share : shares) {
      share = random.next() % 4 == 0 ? 0.0 : static_cast<double>(1 + random.next() % 1000);
    }
    shares[random.next() % shares.size()] = 5.0;
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) {
      share /= sum;
    }
    const std::size_t n = 1 + random.next() % 50;
    std::vector<std::size_t> counts(shares.size());
    std::vector<double> mean(shares.size());
    constexpr int kOffsets = 2000;
    for (int k = 0; k < kOffsets; ++k) {
      select::allot_counts(shares, n, (k + 0.5) / kOffsets, counts);
      ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), n);
      for (std::size_t s = 0; s < shares.size(); ++s) {
        const double exact = shares[s] * static_cast<double>(n);
        ASSERT_LT(std::abs(static_cast<double>(counts[s]) - exact), 1.0 + 1e-9);
        ASSERT_TRUE(shares[s] > 0.0 || counts[s] == 0);
        mean[s] += static_cast<double>(counts[s]) / kOffsets;
      }
    }
    for (std::size_t s = 0; s < shares.size(); ++s) {
      EXPECT_NEAR(mean[s], shares[s] * static_cast<double>(n), 2.0 / kOffsets);
    }
  }
}

/// Draws from four shards of very unequal totals, while steps are appended and priorities change.
/// Expects each item as often as its probability says, and the reported probabilities to be exact.
/// The client gets the shards' new totals only after every `lag`-th batch, or after every batch if
/// `lag` is 0. With `losses`, shards are lost during draws.
void expect_exact_draws(std::size_t lag, bool losses) {
  Shards shards(4);
  Rng random(17 + lag);
  for (std::size_t s = 0; s < 4; ++s) {
    for (std::size_t i = 0; i < 24; ++i) {
      shards.append(
          s, static_cast<float>(std::pow(20.0, s)) * static_cast<float>(1 + random.next() % 8));
    }
  }
  shards.exchange_with_all();
  constexpr std::size_t kBatch = 500;
  DrawCounts counts;
  double sum_of_errors = 0.0;
  double sum_of_squares = 0.0;
  const std::size_t batches = scaled(2400, 200);
  Batch batch = shards.make_batch(kBatch);
  for (std::size_t b = 0; b < batches; ++b) {
    const auto ticket = shards.client->begin(
        batch, 0, kBatch, {.beta = 1.0F, .normalise = Normalise::Not, .draws = Draws::Independent});
    ASSERT_TRUE(ticket);
    std::array<double, 4> known{};
    for (std::size_t s = 0; s < 4; ++s) {
      known[s] = shards.client->totals(s).total;
    }
    // Changes the shards' totals after the client has allotted the batch by the old ones.
    for (std::size_t s = 0; s < 4; ++s) {
      if (shards.weights[s].size() < 60 && random.next() % 8 == 0) {
        shards.append(s, static_cast<float>(std::pow(20.0, s)));
      }
    }
    if (losses && b % 5 == 0) {
      // The shard is lost while its answer is on the way; other shards may have answered.
      const std::size_t lost = random.next() % 4;
      for (std::size_t s = 0; s < 4; ++s) {
        if (s != lost && random.next() % 2 == 0) {
          shards.exchange_with(s);
        }
      }
      (void)shards.client->request(lost);
      shards.client->lose(lost);
      known[lost] = 0.0;
    }
    const double sum = std::accumulate(known.begin(), known.end(), 0.0);
    std::array<double, 4> share{};
    for (std::size_t s = 0; s < 4; ++s) {
      share[s] = known[s] / sum;
      for (std::size_t i = 0; i < shards.weights[s].size(); ++i) {
        const double p = share[s] * static_cast<double>(shards.weights[s][i]) / shards.total(s);
        if (p > 0.0) {
          counts.expect(s * Shards::kNumbersPerShard + i, kBatch * p);
        }
      }
    }
    for (int round = 0; shards.client->state(*ticket) != ShardClient::State::Ready; ++round) {
      ASSERT_LT(round, 8);
      for (const std::size_t s : shards.client->waits_for(*ticket)) {
        shards.exchange_with(s);
      }
    }
    const ShardClient::Origins origins = shards.client->finish(*ticket);
    counts.count(shards.numbers(batch));
    // Items by importance sampling: the mean of weight / P estimates the sum of all weights.
    double sum_of_weights = 0.0;
    double batch_estimate = 0.0;
    for (std::size_t i = 0; i < kBatch; ++i) {
      const std::uint64_t number = shards.numbers(batch)[i];
      const std::uint32_t s = origins.shards[i];
      ASSERT_EQ(number / Shards::kNumbersPerShard, s);
      ASSERT_EQ(origins.incarnations[i], shards.shards[s]->incarnation());
      const double exact =
          share[s] * static_cast<double>(shards.weight_of(number)) / shards.total(s);
      ASSERT_NEAR(batch.probabilities()[i], exact, 1e-12 * exact);
      batch_estimate +=
          static_cast<double>(shards.weight_of(number)) / (kBatch * batch.probabilities()[i]);
    }
    for (std::size_t s = 0; s < 4; ++s) {
      sum_of_weights += known[s] > 0.0 ? shards.total(s) : 0.0;
    }
    const double relative_error = batch_estimate / sum_of_weights - 1.0;
    sum_of_errors += relative_error;
    sum_of_squares += relative_error * relative_error;
    if (b % 3 == 0) {
      std::array<float, 16> priorities{};
      for (std::size_t i = 0; i < priorities.size(); ++i) {
        float& weight = shards.weight_of(shards.numbers(batch)[i]);
        // A key may repeat in the batch. Its last update counts, here as in the shard.
        weight = priorities[i] = static_cast<float>(std::pow(20.0, origins.shards[i])) *
                                 static_cast<float>(1 + random.next() % 8);
      }
      ASSERT_EQ(shards.client->update(batch.keys().first(16), std::span(origins.shards).first(16),
                                      std::span(origins.incarnations).first(16), priorities),
                0U);
    }
    // A request carries updates, and its answer carries the shard's new totals.
    if (losses || lag == 0 || b % lag == 0) {
      shards.exchange_with_all();
    }
    // With a lag, updates reach the shards before the next batch, but the client gets no answers.
    for (std::size_t s = 0; s < 4; ++s) {
      if (lag != 0) {
        const Blob request = shards.client->request(s);
        (void)shards.shards[s]->exchange(request.bytes());
      }
    }
  }
  const double z = counts.z();
  testing::Test::RecordProperty("z", std::to_string(z));
  EXPECT_LT(std::abs(z), 5.0) << "of " << kBatch * batches << " draws";
  const auto count = static_cast<double>(batches);
  const double deviation = std::sqrt(std::max(sum_of_squares / count, 1e-24) / count);
  EXPECT_LT(std::abs(sum_of_errors / count), 5.0 * deviation)
      << "the estimates of the sum of weights are biased";
}

TEST(ShardedDraws, AreExactWhileStepsAreAppendedAndPrioritiesChange) {
  expect_exact_draws(/*lag=*/0, /*losses=*/false);
}

TEST(ShardedDraws, ReportTheirTrueProbabilitiesWhenTheClientsTotalsAreOld) {
  expect_exact_draws(/*lag=*/20, /*losses=*/false);
}

TEST(ShardedDraws, AreExactWhileShardsAreLostAndComeBack) {
  expect_exact_draws(/*lag=*/0, /*losses=*/true);
}

TEST(ShardedDraws, NormaliseWeightsOverAllShardsAsASamplerDoes) {
  Shards shards(3);
  for (std::size_t s = 0; s < 3; ++s) {
    for (int i = 0; i < 10; ++i) {
      shards.append(s, static_cast<float>(1 + i) * (s == 2 ? 50.0F : 1.0F));
    }
  }
  shards.exchange_with_all();
  double total = 0.0;
  for (std::size_t s = 0; s < 3; ++s) {
    total += shards.total(s);
  }
  for (const Normalise normalise : {Normalise::ByBatch, Normalise::ByBuffer, Normalise::Not}) {
    Batch batch = shards.make_batch(20);
    const auto ticket = shards.client->begin(batch, 4, 16, {.beta = 0.5F, .normalise = normalise});
    shards.exchange_with_all();
    (void)shards.client->finish(*ticket);
    EXPECT_EQ(batch.size(), 20U);
    const auto p = batch.probabilities().subspan(4);
    const double lowest_drawn = *std::min_element(p.begin(), p.end());
    for (std::size_t i = 0; i < 16; ++i) {
      // The probability whose weight is 1: the lowest drawn, that of the lowest priority 1 in the
      // buffer, or 1 / N for the 30 items.
      const double reference = normalise == Normalise::ByBatch    ? lowest_drawn
                               : normalise == Normalise::ByBuffer ? 1.0 / total
                                                                  : 1.0 / 30.0;
      EXPECT_NEAR(batch.weights()[4 + i], std::pow(p[i] / reference, -0.5),
                  1e-5 * std::pow(p[i] / reference, -0.5));
    }
  }
}

TEST(ShardedDraws, HaveTheNStepAndTheDiscountOfTheCall) {
  Options options = shard_options();
  options.window = Transitions{.n_step = 3, .discount = 0.5F};
  Shards shards(2, options);
  for (std::size_t s = 0; s < 2; ++s) {
    shards.lines[s]->append_many(shards.writers[s], s * Shards::kNumbersPerShard, 20);
  }
  shards.exchange_with_all();
  Batch batch = shards.make_batch(16);
  const auto ticket = shards.client->begin(batch, 0, 16, {.n_step = 1, .discount = 0.25F});
  shards.exchange_with_all();
  (void)shards.client->finish(*ticket);
  const NumberedBuffer& line = *shards.lines[0];
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(batch.returns(line.reward)[i], batch.now(line.reward)[i]);
    EXPECT_EQ(batch.discounts()[i], 0.25F);
    EXPECT_EQ(batch.lengths()[i], 1U);
  }
  EXPECT_THROW((void)shards.client->begin(batch, 0, 16, {.n_step = 4}), std::invalid_argument);
}

TEST(ShardedDraws, DifferBetweenTwoShardsOfTheSameStepsIfNoSeedIsGiven) {
  NumberedBuffer line(shard_options());
  line.append_many(0, 200);
  std::vector<std::unique_ptr<ReplayShard>> shards;
  ShardClient client(line.schema, shard_options(), 2);
  for (std::size_t s = 0; s < 2; ++s) {
    shards.push_back(std::make_unique<ReplayShard>(line.replay));
  }
  const auto exchange_with_all = [&] {
    for (std::size_t s = 0; s < 2; ++s) {
      client.answer(s, shards[s]->exchange(client.request(s).bytes()).bytes());
    }
  };
  exchange_with_all();
  Batch batch = client.make_batch(64);
  const auto ticket = client.begin(batch, 0, 64, {.draws = Draws::Independent});
  exchange_with_all();
  std::array<std::vector<std::uint64_t>, 2> drawn;
  const ShardClient::Origins origins = client.finish(*ticket);
  for (std::size_t i = 0; i < 64; ++i) {
    drawn[origins.shards[i]].push_back(batch.now(line.id)[i]);
  }
  EXPECT_NE(drawn[0], drawn[1]);
}

}  // namespace
}  // namespace reprise::test
