// Faults that were found in other replay buffers, each as a test that would find it here.

#include <reprise/reprise.hpp>

#include "../support/chi_square.hpp"
#include "../support/line.hpp"
#include "../support/model_check.hpp"
#include "../support/rng.hpp"
#include "../support/scale.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace reprise::test {
namespace {

using namespace std::chrono_literals;
using Probabilities = std::map<std::uint64_t, double>;

TEST(RivalFaults, ManyItemsDecidedAcrossTheEndOfTheCapacityGetTheirOwnPriorities) {
  // Fault 1: a batched add across the end of the ring stores the wrong priorities. Here the tail
  // of an episode decides many items at once, at every offset to capacity and chunk ends.
  for (const std::size_t shards : {1U, 2U}) {
    Options options = small_options();
    options.capacity_steps = 50;
    options.window = Transitions{.n_step = 12};
    options.chunk_steps = 17;
    options.shards = shards;
    Line line(options);
    Writer writer = line.replay.writer();
    std::uint64_t number = 0;
    const auto priority_of = [](std::uint64_t n) { return static_cast<float>(1 + n % 97); };
    for (std::uint64_t episode = 0; episode < 60; ++episode) {
      const std::uint64_t length = 1 + episode % 23;
      const std::uint64_t first = number;
      std::uint64_t decided = 0;
      for (std::uint64_t t = 0; t < length; ++t, ++number) {
        const End end = t + 1 == length ? End::Terminated : End::Continue;
        std::vector<float> priorities;
        if (!writer.in_episode()) {
          writer.begin_episode();
          writer.now(line.id) = number;
        }
        const std::size_t completing = writer.completing(end);
        for (std::size_t i = 0; i < completing; ++i) {
          priorities.push_back(priority_of(first + decided++));
        }
        line.append(writer, number, end, priorities);
      }
      const auto residents = line.numbers();
      double total = 0.0;
      for (const std::uint64_t resident : residents) {
        total += static_cast<double>(priority_of(resident));
      }
      for (const auto& [resident, probability] : line.probabilities(1 << 14)) {
        ASSERT_NEAR(probability, static_cast<double>(priority_of(resident)) / total, 1e-13)
            << "item " << resident << " after episode " << episode;
      }
    }
  }
}

TEST(RivalFaults, UpdatesByManyThreadsLeaveNoStaleSum) {
  // Fault 2: a rebuild clears the mark of an update that came while it ran, and the root stays
  // stale. Every thread ends on a known priority for items of its own.
  for (std::size_t run = 0; run < scaled(60, 10); ++run) {
    Options options = small_options();
    options.capacity_steps = 512;
    options.shards = 1 + run % 3;
    Line line(options);
    Writer writer = line.replay.writer();
    line.append_many(writer, 0, 256);
    const auto keys = line.keys();
    std::vector<std::jthread> threads;
    for (std::uint64_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        Rng rng(100 * run + thread);
        std::vector<ItemKey> mine;
        for (std::uint64_t n = thread; n < 256; n += 4) {
          mine.push_back(keys.at(n));
        }
        std::vector<float> priorities(mine.size());
        for (int repeat = 0; repeat < 50; ++repeat) {
          for (float& priority : priorities) {
            priority = static_cast<float>(rng.below(1000));
          }
          line.replay.update_priorities(mine, priorities);
        }
        for (std::size_t i = 0; i < mine.size(); ++i) {
          priorities[i] = static_cast<float>(1 + i % 5);
        }
        line.replay.update_priorities(mine, priorities);
      });
    }
    threads.emplace_back([&] {
      for (std::uint64_t number = 256; number < 500; ++number) {
        line.append(writer, number, 2.0F);
      }
    });
    threads.clear();
    const auto weight = [](std::uint64_t n) {
      return n < 256 ? static_cast<double>(1 + (n / 4) % 5) : 2.0;
    };
    double total = 0.0;
    for (std::uint64_t n = 0; n < 500; ++n) {
      total += weight(n);
    }
    const Probabilities probabilities = line.probabilities(8192);
    ASSERT_EQ(probabilities.size(), 500U);
    for (const auto& [number, probability] : probabilities) {
      ASSERT_NEAR(probability, weight(number) / total, 1e-13) << "item " << number;
    }
  }
}

TEST(RivalFaults, MillionsOfItemsAreDrawnWithoutTheBiasOfFloatSumsAndFloatRandoms) {
  // Fault 3: float trees and 24 random bits cannot address millions of items.
  const std::size_t items = std::size_t{1} << 21U;
  Options options = small_options();
  options.capacity_steps = items;
  options.chunk_steps = 2048;
  Line line(options);
  Writer writer = line.replay.writer();
  for (std::uint64_t i = 0; i < items; ++i) {
    line.append(writer, i, 0.1F + static_cast<float>(i % 7) * 0.3F);
  }
  Sampler sampler = line.replay.sampler({.seed = 12});
  constexpr std::size_t kBatch = 8192;
  // Not scaled: with fewer draws the test would see nothing.
  constexpr std::size_t kDraws = 10'000'384 / kBatch * kBatch;
  std::vector<std::uint64_t> counts;
  for (std::size_t drawn = 0; drawn < kDraws; drawn += kBatch) {
    const SampleResult batch =
        sampler.sample(kBatch, {.draws = Draws::Independent, .gather = false});
    ASSERT_TRUE(batch);
    for (const ItemKey key : batch->keys()) {
      if (key.slot() >= counts.size()) {
        counts.resize(key.slot() + 1);
      }
      ++counts[key.slot()];
    }
  }
  // Which slot holds which item is the buffer's business, so count how often items were drawn:
  // sums over classes of equal weight are checked elsewhere, here the number never drawn.
  double never = static_cast<double>(items);
  for (const std::uint64_t count : counts) {
    never -= count > 0 ? 1.0 : 0.0;
  }
  double total = 0.0;
  for (std::size_t i = 0; i < items; ++i) {
    total += static_cast<double>(0.1F + static_cast<float>(i % 7) * 0.3F);
  }
  double expected = 0.0;
  double variance = 0.0;
  for (std::size_t i = 0; i < items; ++i) {
    const double weight = static_cast<double>(0.1F + static_cast<float>(i % 7) * 0.3F);
    const double missed = std::exp(-static_cast<double>(kDraws) * weight / total);
    expected += missed;
    variance += missed * (1.0 - missed);
  }
  EXPECT_LT(std::abs(never - expected), 5.0 * std::sqrt(variance))
      << never << " items never drawn, " << expected << " expected";
}

TEST(RivalFaults, TheTailOfTheDistributionIsDrawnAsOftenAsItsWeightSays) {
  // Fault 4: the last part of the mass is never sampled.
  for (const std::size_t shards : {1U, 4U}) {
    Options options = small_options();
    options.capacity_steps = 1000;
    options.shards = shards;
    Line line(options);
    Writer writer = line.replay.writer();
    std::vector<double> probabilities;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      // The newest items together have a thousandth of the mass.
      const float priority = i < 900 ? 1.0F : 0.01F;
      line.append(writer, i, priority);
      probabilities.push_back(static_cast<double>(priority));
    }
    double total = 0.0;
    for (const double weight : probabilities) {
      total += weight;
    }
    for (double& probability : probabilities) {
      probability /= total;
    }
    std::vector<std::uint64_t> counts(1000);
    Sampler sampler = line.replay.sampler({.seed = 3});
    for (int i = 0; i < 100; ++i) {
      const SampleResult batch = sampler.sample(10000, {.draws = Draws::Independent});
      for (const std::uint64_t number : batch->now(line.id)) {
        ++counts[number];
      }
    }
    EXPECT_LT(std::abs(chi_square_z(counts, probabilities)), 5.0);
    std::uint64_t tail = 0;
    for (std::size_t i = 900; i < 1000; ++i) {
      tail += counts[i];
    }
    const double expected = 1e6 * 1.0 / (900.0 + 1.0);
    EXPECT_NEAR(static_cast<double>(tail), expected, 5.0 * std::sqrt(expected));
  }
}

TEST(RivalFaults, LargePrioritiesComeAndGoWithoutATrace) {
  // Fault 5: sums patched by differences drift, and a test for drift in absolute terms rebuilds
  // for ever. Sums that are recomputed are exact again at once.
  Options options = small_options();
  options.shards = 2;
  Line line(options);
  Writer writer = line.replay.writer();
  for (std::uint64_t i = 0; i < 64; ++i) {
    line.append(writer, i, 1.0F);
  }
  const auto keys = line.keys();
  const Probabilities before = line.probabilities();
  Rng rng(8);
  for (int repeat = 0; repeat < 1000; ++repeat) {
    const ItemKey key = keys.at(rng.below(64));
    const float huge = 1e30F * static_cast<float>(1.0 + rng.unit());
    const float one = 1.0F;
    line.replay.update_priorities(std::span(&key, 1), std::span(&huge, 1));
    line.replay.update_priorities(std::span(&key, 1), std::span(&one, 1));
  }
  EXPECT_EQ(line.probabilities(), before) << "bit for bit";
  for (const auto& [number, probability] : before) {
    EXPECT_EQ(probability, 1.0 / 64.0);
  }
}

TEST(RivalFaults, ItemsOfWeightZeroAtEitherEndAreNeverDrawn) {
  // Fault 6: a draw at exactly 0 returns the first leaf, one at the total the last, even at zero.
  for (const std::size_t shards : {1U, 3U}) {
    Options options = small_options();
    options.shards = shards;
    Line line(options);
    Writer writer = line.replay.writer();
    for (std::uint64_t i = 0; i < 64; ++i) {
      line.append(writer, i, i == 31 ? 1e-20F : (i == 40 ? 3e-20F : 0.0F));
    }
    Sampler sampler = line.replay.sampler({.seed = 1});
    for (std::size_t n = 1; n < 400; ++n) {
      const SampleResult batch =
          sampler.sample(n, {.draws = n % 2 == 0 ? Draws::Independent : Draws::Stratified});
      ASSERT_TRUE(batch);
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t number = batch->now(line.id)[i];
        ASSERT_TRUE(number == 31 || number == 40) << "drew item " << number;
        ASSERT_NEAR(batch->probabilities()[i], number == 31 ? 0.25 : 0.75, 1e-7);
      }
    }
  }
}

void set_all(Line& line, const std::map<std::uint64_t, ItemKey>& keys, float priority) {
  std::vector<ItemKey> all;
  for (const auto& [number, key] : keys) {
    all.push_back(key);
  }
  const std::vector<float> priorities(all.size(), priority);
  line.replay.update_priorities(all, priorities);
}

TEST(RivalFaults, StaleUpdateLandsOnNobody) {
  // Fault 7: the update of an evicted item lands on whoever lives in its slot now.
  Options options = small_options();
  options.capacity_steps = 16;
  options.chunk_steps = 4;
  Line line(options);
  Writer writer = line.replay.writer();
  std::vector<std::map<std::uint64_t, ItemKey>> generations;
  std::map<std::uint32_t, std::size_t> uses;
  for (std::uint64_t generation = 0; generation < 30; ++generation) {
    for (std::uint64_t i = 0; i < 16; ++i) {
      line.append(writer, 16 * generation + i, 1.0F);
    }
    generations.push_back(line.keys());
    ASSERT_EQ(generations.back().size(), 16U);
    for (const auto& [number, key] : generations.back()) {
      ++uses[key.slot()];
    }
  }
  EXPECT_TRUE(std::ranges::any_of(uses, [](const auto& use) { return use.second > 1; }))
      << "no slot was used again: the test shows nothing";
  const Probabilities before = line.probabilities();
  std::size_t stale = 0;
  for (std::size_t generation = 0; generation + 1 < generations.size(); ++generation) {
    for (const auto& [number, key] : generations[generation]) {
      const float priority = 100.0F;
      const auto result =
          line.replay.update_priorities(std::span(&key, 1), std::span(&priority, 1));
      EXPECT_EQ(result.applied, 0U);
      stale += result.stale;
    }
  }
  EXPECT_EQ(stale, 29U * 16);
  EXPECT_EQ(line.replay.stats().stale_updates, 29U * 16);
  EXPECT_EQ(line.probabilities(), before);
}

TEST(RivalFaults, TheMinimumRisesAgainAndTheMaximumFallsAgain) {
  // Fault 8. The minimum shows in weights normalised by the buffer, the maximum in new items.
  for (const std::size_t shards : {1U, 3U}) {
    Options options = small_options();
    options.shards = shards;
    Line line(options);
    Writer writer = line.replay.writer();
    for (std::uint64_t i = 0; i < 30; ++i) {
      line.append(writer, i, i == 7 ? 0.001F : (i == 8 ? 1000.0F : 1.0F));
    }
    const auto keys = line.keys();
    set_all(line, {{7, keys.at(7)}, {8, keys.at(8)}}, 1.0F);
    line.append(writer, 30);
    Sampler sampler = line.replay.sampler();
    const SampleResult batch =
        sampler.sample(256, {.beta = 1.0F, .normalise = Normalise::ByBuffer});
    ASSERT_TRUE(batch);
    for (std::size_t i = 0; i < batch->size(); ++i) {
      ASSERT_NEAR(batch->probabilities()[i], 1.0 / 31.0, 1e-14);
      ASSERT_EQ(batch->weights()[i], 1.0F);
    }
  }
}

TEST(RivalFaults, AnActorStoppedInTheMiddleOfAStepStallsNobody) {
  // Fault 9: appends commit in ticket order, so that one preempted actor hides everybody's steps.
  Line line;
  Writer stopped = line.replay.writer();
  line.append(stopped, 1000);
  stopped.now(line.action) = 1001;  // Preempted here.
  Writer writer = line.replay.writer({.timeout = 0ns});
  for (std::uint64_t number = 0; number < 1000; ++number) {
    ASSERT_EQ(line.append(writer, number), CommitStatus::Committed);
    if (number % 50 == 0) {
      const auto numbers = line.numbers();
      ASSERT_TRUE(std::ranges::find(numbers, number) != numbers.end())
          << "a step is visible as soon as it is committed";
    }
  }
  EXPECT_EQ(line.replay.size(), 64U);
  line.append(stopped, 1001);
  EXPECT_EQ(line.replay.stats().committed_steps, 1002U);
  expect_accounted(line.replay);
}

TEST(RivalFaults, ParticipantsThatVanishHangNobody) {
  // Fault 10: killed or blocked participants hang everybody, and nothing says why.
  Options options = small_options();
  options.shards = 2;
  Line line(options);
  for (int death = 0; death < 200; ++death) {
    std::jthread actor([&, death] {
      try {
        Writer writer = line.replay.writer();
        line.append_many(writer, 0, static_cast<std::size_t>(death % 20));
        if (!writer.in_episode()) {
          writer.begin_episode();
          writer.now(line.id) = 0;
        }
        writer.now(line.action) = 5;
        throw std::runtime_error("the simulator crashed");
      } catch (const std::runtime_error&) {
      }
    });
    std::jthread learner([&] {
      Sampler sampler = line.replay.sampler();
      (void)sampler.sample(8, kAtOnce);  // And leaves, its batch and all.
    });
  }
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 5000);
  EXPECT_EQ(line.replay.size(), 64U);
  EXPECT_EQ(line.replay.stats().writers, 1U);
  EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
  expect_accounted(line.replay);

  options.rate_limiter = MinSize{40};
  Line starved(options);
  Sampler sampler = starved.replay.sampler();
  const SampleResult result = sampler.sample(8, {.timeout = 5ms});
  EXPECT_EQ(result.status().code, SampleStatus::Code::TimedOut);
  EXPECT_NE(result.status().message().find("40"), std::string::npos) << "it says what is missing";
  EXPECT_EQ(starved.replay.stats().samplers_for_items.timeouts, 1U) << "and so do the stats";
}

}  // namespace
}  // namespace reprise::test
