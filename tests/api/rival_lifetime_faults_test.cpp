#include <reprise/reprise.hpp>

#include "../support/line.hpp"
#include "../support/model_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

/// Faults that were found in other replay buffers, each as a test that would find it here.
namespace reprise::test {
namespace {

using namespace std::chrono_literals;
using Probabilities = std::map<std::uint64_t, double>;

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
