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

/// Four shards of very unequal totals, and how what a client draws from them compares with the
/// exact law.
class UnequalShards {
 public:
  static constexpr std::size_t kBatch = 500;

  explicit UnequalShards(std::uint64_t seed) : random_(seed) {
    for (std::size_t s = 0; s < kShards; ++s) {
      for (std::size_t i = 0; i < 24; ++i) {
        shards.append(s, random_weight(s));
      }
    }
    shards.exchange_with_all();
  }

  /// Begins a batch, and changes the shards' totals after the client has allotted it by the old
  /// ones.
  void begin() {
    const auto ticket = shards.client->begin(
        batch_, 0, kBatch,
        {.beta = 1.0F, .normalise = Normalise::Not, .draws = Draws::Independent});
    ASSERT_TRUE(ticket);
    ticket_ = *ticket;
    for (std::size_t s = 0; s < kShards; ++s) {
      known_[s] = shards.client->totals(s).total;
    }
    for (std::size_t s = 0; s < kShards; ++s) {
      if (shards.weights[s].size() < 60 && random_.next() % 8 == 0) {
        shards.append(s, scale(s));
      }
    }
  }
  /// Loses a shard while its answer is on the way; other shards may have answered.
  void lose_one() {
    const std::size_t lost = random_.next() % kShards;
    for (std::size_t s = 0; s < kShards; ++s) {
      if (s != lost && random_.next() % 2 == 0) {
        shards.exchange_with(s);
      }
    }
    (void)shards.client->request(lost);
    shards.client->lose(lost);
    known_[lost] = 0.0;
  }
  /// Draws the batch, and compares it with the law.
  void finish() {
    const double sum = std::accumulate(known_.begin(), known_.end(), 0.0);
    std::ranges::transform(known_, shares_.begin(), [&](double known) { return known / sum; });
    expect_counts();
    for (int round = 0; shards.client->state(ticket_) != ShardClient::State::Ready; ++round) {
      ASSERT_LT(round, 8);
      for (const std::size_t s : shards.client->waits_for(ticket_)) {
        shards.exchange_with(s);
      }
    }
    origins_ = shards.client->finish(ticket_);
    counts_.count(shards.numbers(batch_));
    ASSERT_NO_FATAL_FAILURE(check_probabilities());
    add_estimate();
  }
  /// Updates some priorities of the batch. The client has no totals with the new ones yet.
  void update_some() {
    std::array<float, 16> priorities{};
    for (std::size_t i = 0; i < priorities.size(); ++i) {
      // A key may repeat in the batch. Its last update counts, here as in the shard.
      shards.weight_of(shards.numbers(batch_)[i]) = priorities[i] =
          random_weight(origins_.shards[i]);
    }
    ASSERT_EQ(shards.client->update(batch_.keys().first(16), std::span(origins_.shards).first(16),
                                    std::span(origins_.incarnations).first(16), priorities),
              0U);
  }
  /// Brings updates to the shards, whose answers the client does not get.
  void deliver_updates() {
    for (std::size_t s = 0; s < kShards; ++s) {
      const Blob request = shards.client->request(s);
      (void)shards.shards[s]->exchange(request.bytes());
    }
  }
  /// Judges all batches.
  void expect_exact(std::size_t batches) {
    const double z = counts_.z();
    testing::Test::RecordProperty("z", std::to_string(z));
    EXPECT_LT(std::abs(z), 5.0) << "of " << kBatch * batches << " draws";
    const auto count = static_cast<double>(batches);
    const double deviation = std::sqrt(std::max(squares_ / count, 1e-24) / count);
    EXPECT_LT(std::abs(estimate_ / count), 5.0 * deviation)
        << "the mean of f / (n P) is the sum of f";
  }

  Shards shards{kShards};

 private:
  static constexpr std::size_t kShards = 4;

  static float scale(std::size_t s) { return static_cast<float>(std::pow(20.0, s)); }
  float random_weight(std::size_t s) {
    return scale(s) * static_cast<float>(1 + random_.next() % 8);
  }
  void expect_counts() {
    for (std::size_t s = 0; s < kShards; ++s) {
      for (std::size_t i = 0; i < shards.weights[s].size(); ++i) {
        const double p = shares_[s] * static_cast<double>(shards.weights[s][i]) / shards.total(s);
        if (p > 0.0) {
          counts_.expect(s * Shards::kNumbersPerShard + i, kBatch * p);
        }
      }
    }
  }
  void check_probabilities() {
    for (std::size_t i = 0; i < kBatch; ++i) {
      const std::uint64_t number = shards.numbers(batch_)[i];
      const std::uint32_t s = origins_.shards[i];
      ASSERT_EQ(number / Shards::kNumbersPerShard, s);
      ASSERT_EQ(origins_.incarnations[i], shards.shards[s]->incarnation());
      const double exact =
          shares_[s] * static_cast<double>(shards.weight_of(number)) / shards.total(s);
      ASSERT_NEAR(batch_.probabilities()[i], exact, 1e-12 * exact);
    }
  }
  /// Adds how far the batch's estimate of the sum of all weights is off.
  void add_estimate() {
    double estimate = 0.0;
    for (std::size_t i = 0; i < kBatch; ++i) {
      const auto weight = static_cast<double>(shards.weight_of(shards.numbers(batch_)[i]));
      estimate += weight / (kBatch * batch_.probabilities()[i]);
    }
    double sum_of_weights = 0.0;
    for (std::size_t s = 0; s < kShards; ++s) {
      sum_of_weights += known_[s] > 0.0 ? shards.total(s) : 0.0;
    }
    const double off = estimate / sum_of_weights - 1.0;
    estimate_ += off;
    squares_ += off * off;
  }

  Rng random_;
  Batch batch_ = shards.make_batch(kBatch);
  std::uint64_t ticket_ = 0;
  std::array<double, kShards> known_{};   ///< The totals by which the client allots the batch.
  std::array<double, kShards> shares_{};  ///< Their shares of the sum.
  ShardClient::Origins origins_;
  DrawCounts counts_;
  double estimate_ = 0.0;
  double squares_ = 0.0;
};

enum class Losses { Never, DuringDraws };

/// Draws while steps are appended and priorities change. The client gets the shards' new totals
/// only after every `lag`-th batch.
void expect_exact_draws(std::size_t lag, Losses losses) {
  UnequalShards unequal(17 + lag);
  const std::size_t batches = scaled(2400, 200);
  for (std::size_t b = 0; b < batches; ++b) {
    ASSERT_NO_FATAL_FAILURE(unequal.begin());
    if (losses == Losses::DuringDraws && b % 5 == 0) {
      unequal.lose_one();
    }
    ASSERT_NO_FATAL_FAILURE(unequal.finish());
    if (b % 3 == 0) {
      ASSERT_NO_FATAL_FAILURE(unequal.update_some());
    }
    // A request carries updates, and its answer carries totals. Without requests the client's
    // totals get old.
    if (losses == Losses::DuringDraws || lag == 0 || b % lag == 0) {
      unequal.shards.exchange_with_all();
    }
    if (lag != 0) {
      unequal.deliver_updates();
    }
  }
  unequal.expect_exact(batches);
}

TEST(ShardedDraws, AreExactWhileStepsAreAppendedAndPrioritiesChange) {
  expect_exact_draws(/*lag=*/0, Losses::Never);
}

TEST(ShardedDraws, ReportTheirTrueProbabilitiesWhenTheClientsTotalsAreOld) {
  expect_exact_draws(/*lag=*/20, Losses::Never);
}

TEST(ShardedDraws, AreExactWhileShardsAreLostAndComeBack) {
  expect_exact_draws(/*lag=*/0, Losses::DuringDraws);
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
