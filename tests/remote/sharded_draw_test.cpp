#include <reprise/remote.hpp>

#include "select/allot.hpp"
#include "support/chi_square.hpp"
#include "support/line.hpp"
#include "support/rng.hpp"
#include "support/scale.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace reprise::test {
namespace {

Options shard_options(std::size_t capacity = 512) {
  Options options = small_options();
  options.capacity_steps = capacity;
  options.chunk_steps = 16;
  options.shards = 2;
  options.window = Transitions{.n_step = 1};
  return options;
}

/// Shards with steps of numbers that no other shard has, and the weight of each.
class Shards {
 public:
  static constexpr std::uint64_t kApart = 1'000'000;

  explicit Shards(std::size_t count, const Options& options = shard_options())
      : client_(std::make_unique<Line>(options)) {
    for (std::size_t s = 0; s < count; ++s) {
      lines.push_back(std::make_unique<Line>(options));
      writers.push_back(lines.back()->replay.writer());
      shards.push_back(std::make_unique<ReplayShard>(lines.back()->replay, s));
    }
    weights.resize(count);
    client = std::make_unique<ShardClient>(client_->replay, count, ShardClientOptions{.seed = 3});
  }

  void append(std::size_t shard, float weight) {
    const std::uint64_t number = shard * kApart + weights[shard].size();
    lines[shard]->append(writers[shard], number, weight);
    weights[shard].push_back(weight);
  }
  [[nodiscard]] double total(std::size_t shard) const {
    return std::accumulate(weights[shard].begin(), weights[shard].end(), 0.0);
  }
  [[nodiscard]] float& weight_of(std::uint64_t number) {
    return weights[number / kApart][number % kApart];
  }

  void ask(std::size_t shard) {
    client->answer(shard, shards[shard]->exchange(client->request(shard).bytes()).bytes());
  }
  void ask_all() {
    for (std::size_t s = 0; s < shards.size(); ++s) {
      ask(s);
    }
  }
  [[nodiscard]] Batch make_batch(std::size_t n, bool unique_frames = false) const {
    return client_->replay.make_batch(n, nullptr, unique_frames);
  }
  [[nodiscard]] std::span<const std::uint64_t> numbers(const Batch& batch) const {
    return batch.now(client_->id);
  }

  std::vector<std::unique_ptr<Line>> lines;
  std::vector<Writer> writers;
  std::vector<std::unique_ptr<ReplayShard>> shards;
  std::vector<std::vector<float>> weights;
  std::unique_ptr<ShardClient> client;

 private:
  std::unique_ptr<Line> client_;
};

TEST(AllotCounts, AreWholeNumbersBesideTheExactOnesAndExactInTheMean) {
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

/// Counts of a batch after the other, where the expectation of each follows from what was known
/// and what was there when it was drawn.
class Census {
 public:
  void expect(std::uint64_t number, double draws) { expected_[number] += draws; }
  void count(std::span<const std::uint64_t> numbers) {
    for (const std::uint64_t number : numbers) {
      ++counts_[number];
      ++draws_;
    }
  }
  [[nodiscard]] double z() const {
    std::vector<std::uint64_t> counts;
    std::vector<double> probabilities;
    for (const auto& [number, expected] : expected_) {
      const auto found = counts_.find(number);
      counts.push_back(found == counts_.end() ? 0 : found->second);
      probabilities.push_back(expected / static_cast<double>(draws_));
    }
    for (const auto& [number, count] : counts_) {
      EXPECT_TRUE(expected_.contains(number)) << number;
    }
    return chi_square_z(counts, probabilities);
  }
  [[nodiscard]] std::uint64_t draws() const { return draws_; }

 private:
  std::map<std::uint64_t, double> expected_;
  std::map<std::uint64_t, std::uint64_t> counts_;
  std::uint64_t draws_ = 0;
};

/// Four shards of very unequal totals, while steps are appended and priorities change. `lag`: how
/// many batches the client goes on with the totals that it knows.
void expect_exact_draws(std::size_t lag, bool losses) {
  Shards shards(4);
  Rng random(17 + lag);
  for (std::size_t s = 0; s < 4; ++s) {
    for (std::size_t i = 0; i < 24; ++i) {
      shards.append(
          s, static_cast<float>(std::pow(20.0, s)) * static_cast<float>(1 + random.next() % 8));
    }
  }
  shards.ask_all();
  constexpr std::size_t kBatch = 500;
  Census census;
  double estimate = 0.0;
  double squares = 0.0;
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
    // What the client does not know of when it allots.
    for (std::size_t s = 0; s < 4; ++s) {
      if (shards.weights[s].size() < 60 && random.next() % 8 == 0) {
        shards.append(s, static_cast<float>(std::pow(20.0, s)));
      }
    }
    if (losses && b % 5 == 0) {
      // Lost with its answer under way, or after others have answered.
      const std::size_t lost = random.next() % 4;
      for (std::size_t s = 0; s < 4; ++s) {
        if (s != lost && random.next() % 2 == 0) {
          shards.ask(s);
        }
      }
      static_cast<void>(shards.client->request(lost));
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
          census.expect(s * Shards::kApart + i, kBatch * p);
        }
      }
    }
    for (int round = 0; shards.client->state(*ticket) != ShardClient::State::Ready; ++round) {
      ASSERT_LT(round, 8);
      for (const std::size_t s : shards.client->waits_for(*ticket)) {
        shards.ask(s);
      }
    }
    const ShardClient::Origins origins = shards.client->finish(*ticket);
    census.count(shards.numbers(batch));
    double sum_of_weights = 0.0;
    double batch_estimate = 0.0;
    for (std::size_t i = 0; i < kBatch; ++i) {
      const std::uint64_t number = shards.numbers(batch)[i];
      const std::uint32_t s = origins.shards[i];
      ASSERT_EQ(number / Shards::kApart, s);
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
    const double off = batch_estimate / sum_of_weights - 1.0;
    estimate += off;
    squares += off * off;
    // New priorities, of which the client does not know the totals.
    if (b % 3 == 0) {
      std::array<float, 16> priorities{};
      for (std::size_t i = 0; i < priorities.size(); ++i) {
        float& weight = shards.weight_of(shards.numbers(batch)[i]);
        // The last of repeated keys counts.
        weight = priorities[i] = static_cast<float>(std::pow(20.0, origins.shards[i])) *
                                 static_cast<float>(1 + random.next() % 8);
      }
      ASSERT_EQ(shards.client->update(batch.keys().first(16), std::span(origins.shards).first(16),
                                      std::span(origins.incarnations).first(16), priorities),
                0U);
    }
    // A request carries the updates, and its answer the totals; without one the client lags.
    if (losses || lag == 0 || b % lag == 0) {
      shards.ask_all();
    }
    for (std::size_t s = 0; s < 4; ++s) {  // Updates reach the shards before the next batch.
      if (lag != 0) {
        const Blob request = shards.client->request(s);
        static_cast<void>(shards.shards[s]->exchange(request.bytes()));
      }
    }
  }
  const double z = census.z();
  testing::Test::RecordProperty("z", std::to_string(z));
  testing::Test::RecordProperty("draws", std::to_string(census.draws()));
  EXPECT_LT(std::abs(z), 5.0) << "of " << census.draws() << " draws";
  const auto count = static_cast<double>(batches);
  const double deviation = std::sqrt(std::max(squares / count, 1e-24) / count);
  EXPECT_LT(std::abs(estimate / count), 5.0 * deviation) << "the mean of f / (n P) is the sum of f";
}

TEST(ShardedDraws, AreExactWhileStepsAreAppendedAndPrioritiesChange) {
  expect_exact_draws(0, false);
}

TEST(ShardedDraws, ReportWhatTheyWereDrawnWithWhenTotalsLag) {
  expect_exact_draws(20, false);
}

TEST(ShardedDraws, AreExactWhileShardsAreLostAndComeBack) {
  expect_exact_draws(0, true);
}

TEST(ShardedDraws, WeighOverTheWholeBatchAsASamplerDoes) {
  Shards shards(3);
  for (std::size_t s = 0; s < 3; ++s) {
    for (int i = 0; i < 10; ++i) {
      shards.append(s, static_cast<float>(1 + i) * (s == 2 ? 50.0F : 1.0F));
    }
  }
  shards.ask_all();
  double total = 0.0;
  for (std::size_t s = 0; s < 3; ++s) {
    total += shards.total(s);
  }
  for (const Normalise normalise : {Normalise::ByBatch, Normalise::ByBuffer, Normalise::Not}) {
    Batch batch = shards.make_batch(20);
    const auto ticket = shards.client->begin(batch, 4, 16, {.beta = 0.5F, .normalise = normalise});
    shards.ask_all();
    static_cast<void>(shards.client->finish(*ticket));
    EXPECT_EQ(batch.size(), 20U);
    const auto p = batch.probabilities().subspan(4);
    const double lowest_drawn = *std::min_element(p.begin(), p.end());
    for (std::size_t i = 0; i < 16; ++i) {
      const double reference = normalise == Normalise::ByBatch    ? lowest_drawn
                               : normalise == Normalise::ByBuffer ? 1.0 / total
                                                                  : 1.0 / 30.0;
      EXPECT_NEAR(batch.weights()[4 + i], std::pow(p[i] / reference, -0.5),
                  1e-5 * std::pow(p[i] / reference, -0.5));
    }
  }
}

TEST(ShardClient, SeveralBatchesAreUnderWayAndFinishInAnySequence) {
  Shards shards(2);
  for (std::size_t s = 0; s < 2; ++s) {
    for (int i = 0; i < 10; ++i) {
      shards.append(s, 1.0F);
    }
  }
  shards.ask_all();
  std::vector<Batch> batches;
  std::vector<ShardClient::Ticket> tickets;
  for (int b = 0; b < 4; ++b) {
    batches.push_back(shards.make_batch(8));
    tickets.push_back(*shards.client->begin(batches.back(), 0, 8));
  }
  const Blob first = shards.client->request(0);
  const ShardClient::Ticket late = *shards.client->begin(batches[0], 0, 8);
  shards.client->drop(tickets[0]);
  const Blob second = shards.client->request(0);
  EXPECT_THROW(static_cast<void>(shards.client->finish(tickets[1])), std::logic_error);
  // Answers may come in another sequence than the requests.
  const Blob first_answer = shards.shards[0]->exchange(first.bytes());
  shards.client->answer(0, shards.shards[0]->exchange(second.bytes()).bytes());
  shards.client->answer(0, first_answer.bytes());
  EXPECT_THAT(shards.client->waits_for(late), testing::ElementsAre(1U));
  shards.ask(1);
  for (const std::size_t b : {3U, 1U, 2U}) {
    EXPECT_EQ(shards.client->state(tickets[b]), ShardClient::State::Ready);
    const ShardClient::Origins origins = shards.client->finish(tickets[b]);
    EXPECT_EQ(std::count(origins.shards.begin(), origins.shards.end(), 0U), 4);
    EXPECT_THROW(static_cast<void>(shards.client->state(tickets[b])), std::invalid_argument);
  }
}

TEST(ShardClient, RefusesDrawsThatConcernAllShards) {
  Shards shards(2, shard_options());
  Batch batch = shards.make_batch(8);
  for (const Draws draws : {Draws::WithoutReplacement, Draws::Epoch}) {
    EXPECT_THROW(static_cast<void>(shards.client->begin(batch, 0, 8, {.draws = draws})),
                 std::invalid_argument);
  }
}

TEST(ShardClient, TakesUniqueFramesWithTheStacksThatWholeOnesHave) {
  Options options = shard_options();
  options.window = Transitions{.n_step = 1, .frame_stack = 3};
  Shards shards(2, options);
  for (std::size_t s = 0; s < 2; ++s) {
    for (int i = 0; i < 20; ++i) {
      shards.append(s, 1.0F);
    }
  }
  shards.ask_all();
  const auto answer_bytes = [&](bool unique_frames) {
    Batch batch = shards.make_batch(32, unique_frames);
    const auto ticket = shards.client->begin(batch, 0, 32);
    std::size_t bytes = 0;
    for (std::size_t s = 0; s < 2; ++s) {
      const Blob answer = shards.shards[s]->exchange(shards.client->request(s).bytes());
      bytes += answer.bytes().size();
      shards.client->answer(s, answer.bytes());
    }
    static_cast<void>(shards.client->finish(*ticket));
    const Line& line = *shards.lines[0];
    for (std::size_t i = 0; i < 32; ++i) {
      const std::uint64_t number = batch.now(line.action)[i];
      const std::uint64_t first = number / Shards::kApart * Shards::kApart;
      const std::uint64_t next = number + batch.lengths()[i];
      for (std::uint64_t back = 0; back < 3; ++back) {
        EXPECT_EQ(batch.now_stacks(line.id)[i][2 - back], number - std::min(back, number - first));
        EXPECT_EQ(batch.next_stacks(line.id)[i][2 - back], next - std::min(back, next - first));
      }
    }
    return bytes;
  };
  const std::size_t whole = answer_bytes(false);
  EXPECT_LT(answer_bytes(true), whole);
}

TEST(ShardClient, LeavesOutAShardWithoutWeightAndSaysWhenNoneIsLeft) {
  Shards shards(2);
  for (int i = 0; i < 4; ++i) {
    shards.append(0, 1.0F);
    shards.append(1, 1.0F);
  }
  Batch batch = shards.make_batch(6);
  EXPECT_FALSE(shards.client->begin(batch, 0, 6)) << "no shard has answered yet";
  shards.ask_all();
  const auto ticket = shards.client->begin(batch, 0, 6);
  for (const auto& [number, key] : shards.lines[0]->keys()) {
    shards.lines[0]->update(key, 0.0F);
  }
  shards.ask(0);
  EXPECT_THAT(shards.client->waits_for(*ticket), testing::ElementsAre(1U));
  shards.ask(1);
  for (const std::uint32_t shard : shards.client->finish(*ticket).shards) {
    EXPECT_EQ(shard, 1U);
  }
  EXPECT_EQ(shards.client->reallotted(), 3U);
  const auto none = shards.client->begin(batch, 0, 6);
  shards.client->lose(1);
  EXPECT_EQ(shards.client->state(*none), ShardClient::State::NothingToDraw);
  shards.client->drop(*none);
}

TEST(ShardClient, MakesAgainWhatAShardHadGivenIfItIsLostBeforeTheBatchIsWhole) {
  Shards shards(3);
  for (std::size_t s = 0; s < 3; ++s) {
    for (int i = 0; i < 4; ++i) {
      shards.append(s, 1.0F);
    }
  }
  shards.ask_all();
  Batch batch = shards.make_batch(12);
  const auto ticket = shards.client->begin(batch, 0, 12);
  shards.ask(1);
  shards.client->lose(0);  // Shard 1 gets more places, and is lost before it fills them.
  shards.client->lose(1);
  shards.ask(2);
  const ShardClient::Origins origins = shards.client->finish(*ticket);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(origins.shards[i], 2U);
    EXPECT_EQ(shards.numbers(batch)[i] / Shards::kApart, 2U);
    EXPECT_NEAR(batch.probabilities()[i], 0.25, 1e-12);
  }
}

TEST(ShardClient, RefusesAnswersToWhatWasGivenUp) {
  Shards shards(1);
  shards.append(0, 1.0F);
  const Blob answer = shards.shards[0]->exchange(shards.client->request(0).bytes());
  shards.client->lose(0);
  EXPECT_THROW(shards.client->answer(0, answer.bytes()), std::invalid_argument);
  EXPECT_FALSE(shards.client->totals(0).alive);
  shards.ask(0);
  EXPECT_TRUE(shards.client->totals(0).alive);
}

TEST(ShardClient, CountsUpdatesOfALostShardAsStaleAndTakesThoseOfALoadedOne) {
  Shards shards(2);
  shards.append(0, 1.0F);
  shards.append(0, 1.0F);
  shards.ask_all();
  const auto keys = shards.lines[0]->keys();
  const std::vector<ItemKey> key{keys.begin()->second};
  const std::vector<std::uint32_t> of{0};
  const std::vector<float> priority{3.0F};
  const std::vector<std::uint64_t> before{shards.shards[0]->incarnation()};
  const auto update = [&] { return shards.client->update(key, of, before, priority); };
  for (const float bad : {-1.0F, std::numeric_limits<float>::infinity()}) {
    EXPECT_THROW(shards.client->update(key, of, before, {&bad, 1}), std::invalid_argument);
  }
  EXPECT_EQ(update(), 0U);
  shards.client->lose(0);
  EXPECT_EQ(shards.client->totals(0).items, 0U);
  EXPECT_EQ(shards.client->stale_updates(), 1U) << "the queued one";
  EXPECT_EQ(update(), 1U);
  // It comes back with its steps, as from a checkpoint: its tag is that of its keys before.
  shards.shards[0] = std::make_unique<ReplayShard>(shards.lines[0]->replay, 9);
  shards.ask(0);
  EXPECT_EQ(update(), 0U);
  shards.ask(0);
  EXPECT_EQ(shards.client->totals(0).applied_updates, 1U);
  EXPECT_NEAR(shards.client->totals(0).total, 4.0, 1e-6);
  // It comes back as another buffer.
  Options options = shard_options();
  options.key_tag = 8;
  shards.lines[0] = std::make_unique<Line>(options);
  shards.shards[0] = std::make_unique<ReplayShard>(shards.lines[0]->replay, 10);
  // The client does not know yet: what it sends is stale there.
  EXPECT_EQ(update(), 0U);
  shards.ask(0);
  EXPECT_EQ(shards.client->totals(0).stale_updates, 1U);
  EXPECT_EQ(shards.client->totals(0).applied_updates, 0U);
  EXPECT_EQ(update(), 1U);
  EXPECT_EQ(shards.client->stale_updates(), 3U);
}

}  // namespace
}  // namespace reprise::test
