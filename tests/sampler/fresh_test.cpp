#include <reprise/reprise.hpp>

#include "../checkpoint/scratch_directory.hpp"
#include "testing/fixtures/line.hpp"
#include "testing/fixtures/refusal.hpp"
#include "testing/program/scale.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::test {
namespace {

Options sharded(std::size_t shards) {
  Options options = small_options();
  options.shards = shards;
  return options;
}

/// The numbers of a batch's fresh items.
std::vector<std::uint64_t> fresh_of(const Line& line, Sampler& sampler, std::size_t n,
                                    const SampleOptions& how = kAtOnce) {
  const SampleResult batch = sampler.sample(n, how);
  EXPECT_TRUE(batch) << batch.status().message();
  if (!batch) {
    return {};
  }
  const auto ids = batch->now(line.id).first(batch.status().fresh);
  return {ids.begin(), ids.end()};
}

std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> numbers) {
  std::ranges::sort(numbers);
  return numbers;
}

TEST(Fresh, ItemsComeOnceOldestFirstInTheirShareOfEachBatch) {
  Line line;
  Sampler sampler = line.replay.sampler({.fresh = 0.25F});
  Writer writer = line.replay.writer();
  // One item outweighs all others, so that no other is drawn by weight.
  line.append(writer, 0, 1e30F);
  line.append_many(writer, 1, 19, 1e-3F);
  std::uint64_t next = 0;
  for (const std::size_t expected : {3U, 3U, 3U, 3U, 3U, 3U, 2U, 0U}) {
    const SampleResult batch = sampler.sample(12, kAtOnce);
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch.status().fresh, expected);
    for (std::size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(batch->now(line.id)[i], i < expected ? next++ : 0U);
    }
  }
  line.append_many(writer, 20, 2, 1e-3F);
  EXPECT_EQ(fresh_of(line, sampler, 12), numbers_between(20, 22));
}

TEST(Fresh, TheShareIsRoundedAndAtLeastOne) {
  Line line;
  Sampler sampler = line.replay.sampler({.fresh = 0.25F});
  Writer writer = line.replay.writer();
  line.append(writer, 0, 1e30F);
  line.append_many(writer, 1, 19, 1e-3F);
  for (const auto& [n, fresh] : {std::pair{6U, 2U}, {5U, 1U}, {1U, 1U}}) {
    EXPECT_EQ(fresh_of(line, sampler, n).size(), fresh) << n;
  }
}

class FreshIn : public testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(Shards, FreshIn, testing::Values(1U, 3U));

TEST_P(FreshIn, ItemsOfAllShardsAreServedAsTheyCome) {
  Options options = sharded(GetParam());
  options.capacity_steps = 2000;
  Line line(options);
  Sampler sampler = line.replay.sampler({.seed = 1, .fresh = 1.0F});
  Writer writer = line.replay.writer();
  std::vector<std::uint64_t> all;
  for (std::uint64_t number = 0; number < 600; number += 20) {
    line.append_many(writer, number, 20);
    for (int b = 0; b < 2; ++b) {
      for (const std::uint64_t id : fresh_of(line, sampler, 10)) {
        all.push_back(id);
      }
    }
  }
  EXPECT_EQ(sorted(all), numbers_between(0, 600));
  // A queue that is behind gives what is old, from each shard.
  line.append_many(writer, 600, 300);
  std::vector<std::uint64_t> first = fresh_of(line, sampler, 60);
  ASSERT_EQ(first.size(), 60U);
  for (int b = 0; b < 30; ++b) {
    first.push_back(fresh_of(line, sampler, 1).at(0));
  }
  if (GetParam() == 1) {
    EXPECT_EQ(first, numbers_between(600, 690));
  }
  EXPECT_LT(*std::ranges::max_element(first), 720U);
}

TEST_P(FreshIn, AnItemThatAnybodyHasDrawnIsNotFresh) {
  Line line(sharded(GetParam()));
  Sampler sampler = line.replay.sampler({.fresh = 0.5F});
  Sampler plain = line.replay.sampler({.selector = 1});
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 40);
  ASSERT_EQ(line.replay.size(), 40U);
  const SampleResult batch = plain.sample(10, kAtOnce);
  ASSERT_TRUE(batch);
  const auto ids = batch->now(line.id);
  std::set<std::uint64_t> drawn(ids.begin(), ids.end());
  Sampler another = line.replay.sampler({.seed = 4, .selector = 1});
  const SampleResult whole = another.sample(5, {.draws = Draws::WithoutReplacement});
  ASSERT_TRUE(whole);
  drawn.insert(whole->now(line.id).begin(), whole->now(line.id).end());
  for (std::size_t fresh = 1; fresh != 0;) {
    const SampleResult next = sampler.sample(6, kAtOnce);
    ASSERT_TRUE(next);
    fresh = next.status().fresh;
    for (std::size_t i = 0; i < 6; ++i) {
      const std::uint64_t id = next->now(line.id)[i];
      EXPECT_TRUE(drawn.insert(id).second || i >= fresh) << id << " was drawn before";
    }
  }
  EXPECT_EQ(drawn.size(), 40U);
}

TEST(Fresh, AreNotThoseThatWereDrawnInOrder) {
  Options options = sharded(3);
  options.selectors = {kRaw, Fifo{}};
  Line line(options);
  Sampler sampler = line.replay.sampler({.fresh = 1.0F});
  Sampler queue = line.replay.sampler({.selector = 1});
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 20);
  ASSERT_TRUE(queue.sample(5, kAtOnce));
  EXPECT_EQ(sorted(fresh_of(line, sampler, 15)), numbers_between(5, 20));
}

TEST(Fresh, ItemsArePinnedOnlyForTheCall) {
  Line line(sharded(2));
  Sampler sampler = line.replay.sampler({.fresh = 0.5F});
  Writer writer = line.replay.writer();
  for (std::uint64_t number = 0; number < 400; number += 8) {
    line.append_many(writer, number, 8);
    ASSERT_TRUE(sampler.sample(6, kAtOnce));
  }
  line.replay.clear();
  EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
}

TEST(Fresh, IsForAllSamplersTogether) {
  Line line;
  Sampler one = line.replay.sampler({.seed = 1, .fresh = 1.0F});
  Sampler other = line.replay.sampler({.seed = 2, .fresh = 1.0F});
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 30);
  EXPECT_EQ(fresh_of(line, one, 10), numbers_between(0, 10));
  EXPECT_EQ(fresh_of(line, other, 10), numbers_between(10, 20));
  EXPECT_EQ(fresh_of(line, one, 20), numbers_between(20, 30));
}

TEST(Fresh, AreNotTheItemsBeforeTheFirstSuchSampler) {
  Line line;
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 10);
  ASSERT_EQ(line.replay.size(), 10U);
  Sampler sampler = line.replay.sampler({.fresh = 1.0F});
  EXPECT_TRUE(fresh_of(line, sampler, 10).empty());
  line.append_many(writer, 10, 5);
  Sampler another = line.replay.sampler({.fresh = 1.0F});
  EXPECT_EQ(fresh_of(line, another, 10), numbers_between(10, 15));
}

TEST(Fresh, AreNotTheItemsThatACheckpointLoads) {
  const ScratchDirectory directory;
  Line line;
  Sampler sampler = line.replay.sampler({.fresh = 1.0F});
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 20);
  (void)line.replay.save(directory.path());
  ReplayBuffer loaded = ReplayBuffer::load(directory.path());
  Sampler of_loaded = loaded.sampler({.fresh = 1.0F});
  const SampleResult batch = of_loaded.sample(20, kAtOnce);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch.status().fresh, 0U);
  EXPECT_EQ(fresh_of(line, sampler, 20), numbers_between(0, 20));
}

TEST(Fresh, ItemsWithoutWeightLoseTheirTurn) {
  Options options = small_options();
  options.episode_index = true;
  Line line(options);
  Sampler sampler = line.replay.sampler({.fresh = 0.5F});
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 20, [](std::uint64_t i) { return i % 2 == 0 ? 1e-9F : 0.0F; });
  EXPECT_EQ(fresh_of(line, sampler, 8), (std::vector<std::uint64_t>{0, 2, 4, 6}));
  for (std::uint64_t position = 1; position < 10; position += 2) {
    line.update(*line.replay.find(writer.episode_id(), position), 1e-9F);
  }
  EXPECT_EQ(fresh_of(line, sampler, 4), (std::vector<std::uint64_t>{7, 8}));
}

TEST_P(FreshIn, ItemsWithoutWeightTakeNoPlaceInTheBatch) {
  Line line(sharded(GetParam()));
  Sampler sampler = line.replay.sampler({.fresh = 0.5F});
  Writer writer = line.replay.writer();
  // One item outweighs all others, so that no other is drawn by weight.
  line.append(writer, 0, 1e30F);
  line.append_many(writer, 1, 59, [](std::uint64_t i) { return i % 6 == 5 ? 1e-3F : 0.0F; });
  std::vector<std::uint64_t> fresh;
  for (int b = 0; b < 20; ++b) {
    const std::vector<std::uint64_t> some = fresh_of(line, sampler, 4);
    fresh.insert(fresh.end(), some.begin(), some.end());
  }
  EXPECT_EQ(sorted(fresh), (std::vector<std::uint64_t>{0, 5, 11, 17, 23, 29, 35, 41, 47, 53, 59}));
}

TEST_P(FreshIn, RemovedItemsAreNotFresh) {
  Options options = sharded(GetParam());
  options.episode_index = true;
  Line line(options);
  Sampler sampler = line.replay.sampler({.fresh = 0.5F});
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 20);
  std::vector<ItemKey> keys(20);
  for (std::uint64_t i = 0; i < 20; ++i) {
    keys[i] = *line.replay.find(writer.episode_id(), i);
  }
  EXPECT_EQ(line.replay.remove(std::span(keys).subspan(5)), 15U);
  // No shard is asked for what it lost.
  EXPECT_EQ(fresh_of(line, sampler, 6), numbers_between(0, 3));
  line.append_many(writer, 20, 2);
  std::vector<std::uint64_t> rest = sorted(fresh_of(line, sampler, 20));
  std::erase_if(rest,
                [](std::uint64_t id) { return id < 5; });  // The selector may have drawn them.
  EXPECT_EQ(rest, numbers_between(20, 22));
}

TEST(Fresh, ItemsOfEachWriterComeOldestFirst) {
  Line line;
  Sampler sampler = line.replay.sampler({.fresh = 1.0F});
  Writer first = line.replay.writer();
  Writer second = line.replay.writer();
  std::vector<std::uint64_t> of_first;
  std::vector<std::uint64_t> of_second;
  for (std::uint64_t number = 0; number < 60; number += 3) {
    line.append_many(first, number, 3);
    line.append_many(second, 1000 + number, 3);
    for (const std::uint64_t id : fresh_of(line, sampler, number < 30 ? 2 : 10)) {
      (id < 1000 ? of_first : of_second).push_back(id);
    }
  }
  EXPECT_TRUE(std::ranges::is_sorted(of_first));
  EXPECT_TRUE(std::ranges::is_sorted(of_second));
  EXPECT_GT(of_first.size() + of_second.size(), 100U);
}

TEST(Fresh, ItemsThatLeaveLeaveTheQueue) {
  Line line;
  Sampler sampler = line.replay.sampler({.fresh = 0.5F});
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 100);
  ASSERT_EQ(line.replay.size(), 64U);
  EXPECT_EQ(fresh_of(line, sampler, 2), numbers_between(36, 37));
  line.replay.clear();
  line.append_many(writer, 100, 3);
  EXPECT_EQ(fresh_of(line, sampler, 8), numbers_between(100, 103));
}

TEST(Fresh, ProbabilitiesAndWeightsAreThoseOfAUniformDraw) {
  Line line;
  Sampler sampler = line.replay.sampler({.fresh = 0.25F});
  Writer writer = line.replay.writer();
  const auto weight = [](std::uint64_t i) { return 1.0F + static_cast<float>(i); };
  line.append_many(writer, 0, 40, weight);
  for (const Normalise normalise : {Normalise::ByBatch, Normalise::ByBuffer, Normalise::Not}) {
    const SampleResult batch = sampler.sample(12, {.beta = 1.0F, .normalise = normalise});
    ASSERT_TRUE(batch);
    ASSERT_EQ(batch.status().fresh, 3U);
    double least = 1.0;
    for (std::size_t i = 0; i < 12; ++i) {
      const double expected =
          i < 3 ? 1.0 / 40.0 : static_cast<double>(weight(batch->now(line.id)[i])) / 820.0;
      EXPECT_NEAR(batch->probabilities()[i], expected, 1e-12);
      least = std::min(least, expected);
    }
    const double scale = normalise == Normalise::ByBatch    ? 40.0 * least
                         : normalise == Normalise::ByBuffer ? 40.0 / 820.0
                                                            : 1.0;
    for (std::size_t i = 0; i < 12; ++i) {
      EXPECT_NEAR(static_cast<double>(batch->weights()[i]),
                  scale / (40.0 * batch->probabilities()[i]), 1e-6);
    }
  }
  Sampler only_fresh = line.replay.sampler({.fresh = 1.0F});
  line.append_many(writer, 40, 4, 1.0F);
  const SampleResult batch = only_fresh.sample(4, {.beta = 1.0F});
  ASSERT_TRUE(batch);
  ASSERT_EQ(batch.status().fresh, 4U);
  for (const float each : batch->weights()) {
    EXPECT_FLOAT_EQ(each, 1.0F);
  }
}

TEST(Fresh, WeightsByTheBufferStayComparableWhenTheQueueIsEmpty) {
  Line line;
  Sampler sampler = line.replay.sampler({.fresh = 1.0F});
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 6, 0.0F);
  line.append_many(writer, 6, 2, 1.0F);
  // The largest weight of the buffer is that of a fresh item, (8 * 1 / 8)^-1.
  for (const std::size_t fresh : {2U, 0U}) {
    const SampleResult batch = sampler.sample(4, {.beta = 1.0F, .normalise = Normalise::ByBuffer});
    ASSERT_TRUE(batch);
    ASSERT_EQ(batch.status().fresh, fresh);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(static_cast<double>(batch->weights()[i]), i < fresh ? 1.0 : 0.25, 1e-6);
    }
  }
}

TEST(Fresh, RestsOnTheSelectorForWhatIsNotThere) {
  Line line;
  Sampler sampler = line.replay.sampler({.fresh = 1.0F});
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 3, 1.0F);
  const SampleResult batch = sampler.sample(64, kAtOnce);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch.status().fresh, 3U);
  EXPECT_EQ(std::set(batch->now(line.id).begin(), batch->now(line.id).end()).size(), 3U);
}

TEST(Fresh, APrefetcherTellsHowManyThereAreInEachBatch) {
  Options options = small_options();
  options.rate_limiter = MinSize{20};
  Line line(options);
  Sampler ahead = line.replay.sampler({.fresh = 0.5F});
  Prefetcher prefetcher(ahead, 4);
  const std::jthread thread([&](const std::stop_token& stop) { prefetcher.run(stop); });
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 20);
  std::set<std::uint64_t> seen;
  std::size_t last = 2;
  for (int b = 0; b < 12; ++b) {
    const SampleResult batch = prefetcher.next();
    ASSERT_TRUE(batch);
    const std::size_t fresh = batch.status().fresh;
    EXPECT_TRUE(b != 0 || fresh == 2) << fresh;
    EXPECT_LE(fresh, last);
    for (const std::uint64_t id : batch->now(line.id).first(fresh)) {
      EXPECT_TRUE(seen.insert(id).second) << id;
    }
    last = fresh;
  }
  EXPECT_EQ(last, 0U);
}

TEST(Fresh, RefusesWhatItCannotBePutBefore) {
  for (const float share : {-0.1F, 1.1F, std::numeric_limits<float>::quiet_NaN()}) {
    expect_refusal<std::invalid_argument>(
        [&] {
          Line line;
          (void)line.replay.sampler({.fresh = share});
        },
        {"fresh", "0 to 1"});
  }
  Options limited = small_options();
  limited.max_times_sampled = 2;
  Options first_in = small_options();
  first_in.selectors = {Fifo{}};
  for (const Options& options : {limited, first_in}) {
    Line line(options);
    expect_refusal<std::invalid_argument>([&] { (void)line.replay.sampler({.fresh = 0.5F}); },
                                          {"fresh", "order", "max_times_sampled"});
  }
  Line line;
  Sampler sampler = line.replay.sampler({.fresh = 0.5F});
  for (const Draws draws : {Draws::WithoutReplacement, Draws::Epoch}) {
    expect_refusal<std::invalid_argument>(
        [&] { (void)sampler.sample(2, {.draws = draws, .timeout = std::chrono::nanoseconds(0)}); },
        {"Stratified", "fresh"});
  }
}

/// Samplers share the queue while writers append and the buffer turns over.
TEST(FreshRace, NoItemIsFreshTwice) {
  for (std::size_t round = 0; round < scaled(20, 4); ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << round);
    Options options = sharded(1 + round % 3);
    // Some rounds keep every item, so that each is fresh once.
    options.capacity_steps = round % 2 == 0 ? 64 : 4000;
    Line line(options);
    Sampler last = line.replay.sampler({.fresh = 1.0F});
    Writer first = line.replay.writer();
    line.append_many(first, 0, 1);
    std::atomic<int> writing = 2;
    std::mutex mutex;
    std::set<std::uint64_t> seen;
    std::map<std::uint64_t, int> drawn;  // With the number of the batch, from 1 on.
    std::atomic<int> batches = 0;
    const auto note = [&](Sampler& sampler, std::size_t n) {
      const int before = batches;
      const SampleResult batch = sampler.sample(n);
      ASSERT_TRUE(batch);
      const std::lock_guard lock(mutex);
      for (const std::uint64_t id : batch->now(line.id).first(batch.status().fresh)) {
        ASSERT_TRUE(seen.insert(id).second) << id << " is fresh twice";
        ASSERT_TRUE(!drawn.contains(id) || drawn[id] > before) << id << " was drawn before";
      }
      ++batches;
      for (const std::uint64_t id : batch->now(line.id)) {
        drawn.emplace(id, batches);
      }
    };
    {
      std::vector<std::jthread> threads;
      for (std::uint64_t w = 1; w < 3; ++w) {
        threads.emplace_back([&, w] {
          Writer writer = line.replay.writer();
          line.append_many(writer, 10'000 * w, 800);
          --writing;
        });
        threads.emplace_back([&, w] {
          Sampler sampler = line.replay.sampler({.seed = w, .fresh = 1.0F});
          while (writing != 0) {
            note(sampler, 7);
          }
        });
      }
    }
    for (int i = 0; i < 300; ++i) {
      note(last, 7);
    }
    if (options.capacity_steps == 4000) {
      EXPECT_EQ(drawn.size(), 1601U);
    }
    expect_accounted(line.replay);
  }
}

}  // namespace
}  // namespace reprise::test
