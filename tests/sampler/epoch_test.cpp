#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"
#include "testing/fixtures/refusal.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/fixtures/threads.hpp"
#include "testing/program/scale.hpp"
#include "testing/statistics/chi_square.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

namespace reprise::test {
namespace {

const SampleOptions kEpoch{.draws = Draws::Epoch, .timeout = std::chrono::nanoseconds(0)};

Options sharded(std::size_t shards) {
  return Small{.shards = shards};
}

/// The numbers of the next items of a pass, `n` at a time.
std::vector<std::uint64_t> draw(const Line& line, Sampler& sampler, std::size_t n) {
  const SampleResult batch = sampler.sample(n, kEpoch);
  EXPECT_TRUE(batch) << batch.status().message();
  const auto ids = batch ? batch->now(line.id) : std::span<const std::uint64_t>();
  return {ids.begin(), ids.end()};
}

std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> numbers) {
  std::ranges::sort(numbers);
  return numbers;
}

class EpochIn : public testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(Shards, EpochIn, testing::Values(1U, 3U));

TEST_P(EpochIn, EachItemComesOncePerPassInASequenceOfItsOwn) {
  Line line(sharded(GetParam()));
  line.append_many(0, 60, [](std::uint64_t i) { return 1.0F + static_cast<float>(i); });
  Sampler sampler = line.replay.sampler({.seed = 3});
  std::set<std::vector<std::uint64_t>> sequences;
  for (std::uint64_t pass = 0; pass < 5; ++pass) {
    std::vector<std::uint64_t> drawn;
    for (int b = 0; b < 6; ++b) {
      const SampleResult batch = require_batch(sampler.sample(10, kEpoch));
      const auto ids = batch->now(line.id);
      drawn.insert(drawn.end(), ids.begin(), ids.end());
      EXPECT_EQ(batch.status().passes, pass + (b == 5 ? 1U : 0U));
      for (std::size_t i = 0; i < 10; ++i) {
        EXPECT_EQ(batch->probabilities()[i], 1.0 / 60.0);
        EXPECT_EQ(batch->weights()[i], 1.0F);
      }
    }
    sequences.insert(drawn);
    EXPECT_EQ(sorted(drawn), numbers_between(0, 60));
  }
  EXPECT_EQ(sequences.size(), 5U);
}

TEST(Epoch, OfAnyWeightsEverySequenceIsAsLikely) {
  Line line;
  line.append_many(0, 4, [](std::uint64_t i) { return static_cast<float>(i * i + 1); });
  Sampler sampler = line.replay.sampler({.seed = 11});
  std::vector<std::uint64_t> counts(256);
  std::vector<double> expected(256);
  std::array<std::uint64_t, 4> sequence{0, 1, 2, 3};
  const auto code = [](const auto& ids) {
    return ((ids[0] * 4 + ids[1]) * 4 + ids[2]) * 4 + ids[3];
  };
  do {
    expected[code(sequence)] = 1.0 / 24.0;
  } while (std::ranges::next_permutation(sequence).found);
  for (int pass = 0; pass < 24000; ++pass) {
    const SampleResult batch = require_batch(sampler.sample(4, kEpoch));
    ++counts[code(batch->now(line.id))];
  }
  EXPECT_LT(std::abs(chi_square_z(counts, expected)), 5.0);
}

TEST(Epoch, OfManyItemsIsListedInParts) {
  constexpr std::size_t kItems = 100'000;
  Line line(Small{.capacity_steps = kItems, .chunk_steps = 64});
  line.append_many(0, kItems);
  Sampler sampler = line.replay.sampler({.parallel_gather_bytes = kGatherAlone});
  EXPECT_EQ(sorted(draw(line, sampler, kItems)), numbers_between(0, kItems));
}

TEST(Epoch, OfALoadedBufferBeginsANewPass) {
  const ScratchDirectory directory;
  Line line(sharded(2));
  line.append_many(0, 20);
  Sampler sampler = line.replay.sampler();
  ASSERT_EQ(draw(line, sampler, 25).size(), 25U);
  (void)line.replay.save(directory.path(), {.samplers = {&sampler}});
  ReplayBuffer loaded = ReplayBuffer::load(directory.path());
  Sampler resumed = loaded.sampler({.resume = 0});
  const SampleResult batch = require_batch(resumed.sample(20, kEpoch));
  EXPECT_EQ(batch.status().passes, 1U);
  EXPECT_EQ(std::set(batch->positions().begin(), batch->positions().end()).size(), 20U);
}

TEST(Epoch, IsRefusedWhereSomethingElseDecidesHowOftenItemsCome) {
  Options limited = Small{.max_times_sampled = 2};
  Options first_in = Small{.selectors = {Fifo{}}};
  for (const Options& options : {limited, first_in}) {
    Line line(options);
    line.append_many(0, 9);
    Sampler sampler = line.replay.sampler();
    expect_refusal<std::invalid_argument>([&] { (void)sampler.sample(3, kEpoch); },
                                          {"Epoch", "order", "max_times_sampled"});
    EXPECT_TRUE(sampler.sample(3, kAtOnce));
  }
}

TEST(Epoch, APrefetcherTellsThePassesOfEachBatch) {
  Line line;
  line.append_many(0, 6);
  Sampler ahead = line.replay.sampler();
  Prefetcher prefetcher(ahead, 3, {.draws = Draws::Epoch}, 4);
  const std::jthread thread([&](const std::stop_token& stop) { prefetcher.run(stop); });
  for (std::uint64_t b = 1; b < 20; ++b) {
    const SampleResult batch = prefetcher.next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch.status().passes, b / 2);
  }
}

/// Passes of a sampler while writers append: items below `stay` come once in each, others at most
/// once.
void check_passes(Line& line, std::uint64_t seed, std::uint64_t stay,
                  const std::atomic<bool>& end) {
  Sampler sampler = line.replay.sampler({.seed = seed});
  std::set<std::uint64_t> drawn;
  std::uint64_t passes = 0;
  while (!end.load() || passes < 2) {
    const SampleResult batch = require_batch(sampler.sample(1 + seed, kEpoch));
    if (seed != 0) {
      passes = batch.status().passes;
      continue;
    }
    // A pass whose last items have left is completed by the first draw of the next one.
    const bool over = batch.status().passes != passes;
    const std::uint64_t id = batch->now(line.id)[0];
    ASSERT_TRUE(drawn.insert(id).second || over) << id << " comes twice in a pass";
    if (over) {
      passes = batch.status().passes;
      ASSERT_GE(drawn.size(), stay);
      ASSERT_TRUE(std::ranges::equal(numbers_between(0, stay),
                                     std::set(drawn.begin(), drawn.lower_bound(stay))));
      drawn.clear();
    }
  }
}

TEST(EpochRace, WhatStaysComesOncePerPassWhileWritersAppend) {
  constexpr std::uint64_t kStay = 40;
  for (std::size_t round = 0; round < scaled(20, 4); ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << round);
    Options options = sharded(1 + round % 3);
    options.capacity_steps = 4000;
    options.chunk_steps = 16;
    Line line(options);
    Writer first = line.replay.writer();
    line.append_many(first, 0, kStay);
    std::atomic<bool> end = false;
    std::vector<std::jthread> samplers;
    start(samplers, 2, [&](std::uint64_t seed) { check_passes(line, seed, kStay, end); });
    {
      std::vector<std::jthread> writers;
      for (std::uint64_t w = 1; w < 3; ++w) {
        writers.emplace_back([&line, w] {
          Writer writer = line.replay.writer();
          line.append_many(writer, 10'000 * w, 500);
        });
      }
    }
    end.store(true);
  }
}

TEST(EpochRace, NoItemComesTwiceInAPassWhileTheBufferTurnsOver) {
  for (std::size_t round = 0; round < scaled(20, 4); ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << round);
    Line line(sharded(1 + round % 3));
    Writer first = line.replay.writer();
    line.append_many(first, 0, 40);
    std::atomic<bool> end = false;
    const std::jthread writing([&] {
      Writer writer = line.replay.writer();
      line.append_many(writer, 10'000, 3000);
      end.store(true);
    });
    check_passes(line, 0, 0, end);
    expect_accounted(line.replay);
  }
}

}  // namespace
}  // namespace reprise::test
