#include <reprise/reprise.hpp>

#include "goals.hpp"
#include "testing/fixtures/line.hpp"
#include "testing/fixtures/refusal.hpp"
#include "testing/fixtures/rng.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <vector>

namespace reprise::test {
namespace {

/// Steps of a random number of episodes of random length. A step of the line observes its number,
/// so an episode achieves consecutive numbers, one more than it has steps.
class Episodes {
 public:
  Episodes(Line& line, std::uint64_t seed) : line_(line), rng_(seed) {}

  void append(Writer& writer, std::size_t steps) {
    for (std::size_t i = 0; i < steps; ++i) {
      const bool ends = rng_.below(9) == 0;
      episode_of_[next_] = episode_;
      line_.append(writer, next_++, ends ? End::Terminated : End::Continue);
      if (ends) {
        ++next_;  // The number of the final observation.
        ++episode_;
      }
    }
  }
  /// Whether the observation is one of the episode of the step.
  [[nodiscard]] bool achieved(std::uint64_t step, std::uint64_t observation) const {
    const std::uint64_t episode = episode_of_.at(step);
    const auto is_of = [&](std::uint64_t number) {
      const auto at = episode_of_.find(number);
      return at != episode_of_.end() && at->second == episode;
    };
    return is_of(observation) || is_of(observation - 1);
  }

 private:
  Line& line_;
  Rng rng_;
  std::uint64_t next_ = 1;
  std::uint64_t episode_ = 1;
  std::map<std::uint64_t, std::uint64_t> episode_of_;  ///< By the number of a step.
};

TEST(Hindsight, GoalsAreWhatTheEpisodeAchievedAtTheirDistance) {
  for (const HindsightGoal goal :
       {HindsightGoal::Future, HindsightGoal::Final, HindsightGoal::Episode}) {
    for (const std::size_t shards : {1U, 3U}) {
      SCOPED_TRACE(testing::Message()
                   << "goal " << static_cast<int>(goal) << ", shards " << shards);
      Line line(options_of(shards, 16));
      Hindsight hindsight = line.replay.hindsight(line.id, {.goal = goal, .share = 1.0F});
      Episodes episodes(line, 7 + shards);
      Writer writer = line.replay.writer();
      std::map<std::uint64_t, ItemKey> keys;  // Also of what is gone.
      for (int round = 0; round < 40; ++round) {
        episodes.append(writer, 13);  // Chunks are used again, so stale headers lie around.
        const std::map<std::uint64_t, ItemKey> there = line.keys();
        keys.insert(there.begin(), there.end());
        std::vector<std::uint64_t> numbers;
        std::vector<ItemKey> asked;
        for (const auto& [number, key] : keys) {
          numbers.push_back(number);
          asked.push_back(key);
        }
        const Goals made = relabel(hindsight, asked);
        EXPECT_EQ(made.relabelled + static_cast<std::size_t>(std::ranges::count(made.distances, 0)),
                  asked.size());
        for (std::size_t i = 0; i < asked.size(); ++i) {
          const std::int32_t distance = made.distances[i];
          if (distance == 0) {
            EXPECT_EQ(made.goals[i], kOwn);
            // An item is left alone only if it is gone; with Episode, all have another observation.
            EXPECT_FALSE(there.contains(numbers[i]));
            continue;
          }
          ASSERT_TRUE(there.contains(numbers[i]));
          EXPECT_EQ(made.goals[i], numbers[i] + static_cast<std::uint64_t>(std::int64_t{distance}));
          EXPECT_TRUE(episodes.achieved(numbers[i], made.goals[i])) << numbers[i];
          EXPECT_TRUE(distance > 0 || goal == HindsightGoal::Episode);
        }
      }
      EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
    }
  }
}

/// The distances that calls give for one step of an episode of eleven, which lies in one chunk or,
/// with small ones, in three.
std::map<std::int32_t, int> distances_of(HindsightGoal goal, std::uint64_t step, int calls,
                                         std::uint32_t chunk_steps = 32) {
  Line line(options_of(chunk_steps < 16 ? 3 : 1, chunk_steps));
  Hindsight hindsight = line.replay.hindsight(line.id, {.goal = goal, .share = 1.0F, .seed = 5});
  line.append_many(100, 3);  // Another episode in front.
  line.append(103, End::Terminated);
  line.append_many(1, 10);
  line.append(11, End::Truncated);
  line.append_many(200, 4);  // And one behind.
  const ItemKey key = line.keys().at(step);
  const std::vector<ItemKey> keys(static_cast<std::size_t>(calls), key);
  std::map<std::int32_t, int> counts;
  for (const std::int32_t distance : relabel(hindsight, keys).distances) {
    ++counts[distance];
  }
  return counts;
}

TEST(Hindsight, FutureIsAnyLaterObservationAlike) {
  for (const std::uint32_t chunk_steps : {32U, 6U}) {
    const auto distances = [=](std::uint64_t step, int calls) {
      return distances_of(HindsightGoal::Future, step, calls, chunk_steps);
    };
    expect_uniform(distances(4, 20000), 1, 8);
    expect_uniform(distances(1, 20000), 1, 11);
    expect_uniform(distances(11, 100), 1, 1);
    expect_uniform(distances(200, 20000), 1, 4);
  }
}

TEST(Hindsight, FinalIsTheLastObservation) {
  for (const std::uint32_t chunk_steps : {32U, 6U}) {
    expect_uniform(distances_of(HindsightGoal::Final, 4, 100, chunk_steps), 8, 8);
    expect_uniform(distances_of(HindsightGoal::Final, 103, 100, chunk_steps), 1, 1);
  }
}

TEST(Hindsight, EpisodeIsAnyOtherObservationAlike) {
  for (const std::uint32_t chunk_steps : {32U, 6U}) {
    const auto distances = [=](std::uint64_t step) {
      return distances_of(HindsightGoal::Episode, step, 20000, chunk_steps);
    };
    expect_uniform(distances(4), -3, 8);
    expect_uniform(distances(1), 0, 11);
    expect_uniform(distances(6), -5, 6);
    expect_uniform(distances(11), -10, 1);
  }
}

TEST(Hindsight, GoalsCanBeCompressedOrLieBesideCompressedFields) {
  Schema schema;
  const auto screen = schema.observation<std::uint16_t>("screen", {300});
  const auto number = schema.observation<std::uint16_t>("number");
  schema.compress(screen);
  ReplayBuffer replay(schema, {.capacity_steps = 64, .selectors = {Uniform{}}, .chunk_steps = 16});
  Writer writer = replay.writer();
  writer.begin_episode();
  for (std::uint16_t step = 0; step < 60; ++step) {
    if (step == 0) {
      writer.now(number) = 0;
      std::ranges::fill(writer.now(screen), std::uint16_t{0});
    }
    writer.next(number) = static_cast<std::uint16_t>(step + 1);
    std::ranges::fill(writer.next(screen), static_cast<std::uint16_t>(step + 1));
    writer.commit();
  }
  Sampler sampler = replay.sampler({.seed = 1});
  const auto batch = sampler.sample(500);
  ASSERT_TRUE(batch);
  Hindsight numbers = replay.hindsight(number, {.share = 1.0F});
  Hindsight screens = replay.hindsight(screen, {.share = 1.0F});
  std::vector<std::uint16_t> goals(500);
  std::vector<std::uint16_t> shown(500 * 300);
  std::vector<std::int32_t> distances(500);
  std::vector<std::int32_t> same(500);
  EXPECT_EQ(numbers.relabel(batch->keys(), std::span(goals), std::span(distances)), 500U);
  EXPECT_EQ(screens.relabel(batch->keys(), std::span(shown), std::span(same)), 500U);
  EXPECT_EQ(distances, same);
  for (std::size_t i = 0; i < 500; ++i) {
    EXPECT_EQ(goals[i], batch->now(number)[i] + distances[i]);
    const std::span<const std::uint16_t> pixels = std::span(shown).subspan(i * 300, 300);
    EXPECT_TRUE(std::ranges::all_of(pixels, [&](auto pixel) { return pixel == goals[i]; })) << i;
  }
}

TEST(Hindsight, TheShareOfItemsIsRelabelled) {
  Line line(options_of(2, 16));
  line.append_many(1, 50);
  const std::vector<ItemKey> keys(10000, line.keys().at(7));
  for (const float share : {0.0F, 0.25F, 0.8F, 1.0F}) {
    Hindsight hindsight = line.replay.hindsight(line.id, {.share = share});
    const double expected = 10000.0 * static_cast<double>(share);
    EXPECT_NEAR(static_cast<double>(relabel(hindsight, keys).relabelled), expected,
                5 * std::sqrt(expected * (1.0 - static_cast<double>(share))));
  }
}

TEST(Hindsight, EqualSeedsGiveEqualGoals) {
  Line line(options_of(2, 16));
  line.append_many(1, 50);
  std::vector<ItemKey> keys;
  for (const auto& [number, key] : line.keys()) {
    keys.push_back(key);
  }
  Hindsight one = line.replay.hindsight(line.id, {.seed = 3});
  Hindsight same = line.replay.hindsight(line.id, {.seed = 3});
  Hindsight other = line.replay.hindsight(line.id, {.seed = 4});
  const Goals goals = relabel(one, keys);
  EXPECT_EQ(goals.goals, relabel(same, keys).goals);
  EXPECT_NE(goals.goals, relabel(other, keys).goals);
  EXPECT_NE(goals.goals, relabel(one, keys).goals);
}

TEST(Hindsight, GoalsGrowWithAnEpisodeUnderWay) {
  Line line(options_of(1, 32));
  Hindsight last = line.replay.hindsight(line.id, {.goal = HindsightGoal::Final, .share = 1.0F});
  line.append_many(1, 1);
  const ItemKey first = line.keys().at(1);
  EXPECT_EQ(relabel(last, {&first, 1}).goals[0], 2U);
  line.append_many(2, 6);
  ASSERT_EQ(line.replay.size(), 7U);  // They are ingested.
  EXPECT_EQ(relabel(last, {&first, 1}).goals[0], 8U);
}

TEST(Hindsight, HoldsWhileWritersAppend) {
  Options options = options_of(2, 16);
  options.capacity_steps = 4096;  // So that few items leave between a draw and its goals.
  Line line(options);
  std::jthread writer_thread([&](const std::stop_token& stop) {
    Writer writer = line.replay.writer();
    for (std::uint64_t number = 1; !stop.stop_requested(); ++number) {
      const bool ends = number % 7 == 0;
      line.append(writer, number, ends ? End::Terminated : End::Continue);
    }
  });
  yield_while([&] { return line.replay.size() < 64; });
  Hindsight hindsight = line.replay.hindsight(line.id, {.goal = HindsightGoal::Episode});
  Sampler sampler = line.replay.sampler();
  std::vector<std::int32_t> distances(256);
  std::vector<std::uint64_t> goals(256);
  std::size_t relabelled = 0;
  // On a busy machine most items may leave before their goals are asked for: then there are more.
  for (int i = 0; i < 400 || (relabelled <= 400 && i < 40'000); ++i) {
    const SampleResult batch = require_batch(sampler.sample(256));
    relabelled += hindsight.relabel(batch->keys(), std::span(goals), std::span(distances));
    for (std::size_t k = 0; k < distances.size(); ++k) {
      if (distances[k] == 0) {
        continue;
      }
      // An episode of seven begins with a number one above a multiple of seven.
      const std::uint64_t number = batch->now(line.id)[k];
      const std::uint64_t first = number - (number - 1) % 7;
      ASSERT_EQ(goals[k], number + static_cast<std::uint64_t>(std::int64_t{distances[k]}));
      ASSERT_GE(goals[k], first);
      ASSERT_LE(goals[k], first + 7);
    }
  }
  writer_thread.request_stop();
  writer_thread.join();
  EXPECT_GT(relabelled, 400U);
  EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
}

TEST(Hindsight, OfStacksTakesTheNewestFrame) {
  Schema schema;
  const auto frame = schema.observation<float>("frame", {2});
  Options options = options_of(1, 32);
  options.window = Transitions{.frame_stack = 3};
  ReplayBuffer replay(schema, options);
  Writer writer = replay.writer();
  writer.begin_episode();
  for (std::size_t i = 0; i < 6; ++i) {
    writer.now(frame)[1] = static_cast<float>(i);
    writer.next(frame)[1] = static_cast<float>(i + 1);
    writer.commit(i == 5 ? End::Terminated : End::Continue);
  }
  Hindsight last = replay.hindsight(frame, {.goal = HindsightGoal::Final, .share = 1.0F});
  Sampler sampler = replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(8));
  std::vector<float> goals(16, -1.0F);
  std::vector<std::int32_t> distances(8);
  EXPECT_EQ(last.relabel(batch->keys(), std::span(goals), std::span(distances)), 8U);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(goals[2 * i + 1], 6.0F);
  }
}

TEST(Hindsight, RefusesWhatDoesNotFit) {
  using Wrong = std::invalid_argument;
  Line line;
  line.append_many(1, 5);
  expect_refusal<Wrong>([&] { (void)line.replay.hindsight(AnyField(line.action)); },
                        {"field 'action' is a column", "observations"});
  expect_refusal<Wrong>([&] { (void)line.replay.hindsight(line.id, {.share = 1.5F}); },
                        {"HindsightOptions::share is 1.5", "0 to 1"});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_refusal<Wrong>([&] { (void)line.replay.hindsight(line.id, {.share = nan}); },
                        {"HindsightOptions::share is nan"});
  Schema of_other;
  const auto deep = of_other.observation<float>("deep");
  expect_refusal<Wrong>([&] { (void)line.replay.hindsight(deep); },
                        {"field 'id'", "the handle is of another schema"});
  Line three(Small{.window = Transitions{.n_step = 3}});
  expect_refusal<Wrong>([&] { (void)three.replay.hindsight(three.id); },
                        {"Transitions of n_step 3", "n_step 1"});

  Hindsight hindsight = line.replay.hindsight(line.id);
  const std::vector<ItemKey> keys = {line.keys().at(2), line.keys().at(3)};
  std::vector<std::uint64_t> goals(2, kOwn);
  std::vector<std::int64_t> wrong(2);
  std::vector<std::int32_t> distances(2, 99);
  const std::span<std::uint64_t> all(goals);
  expect_refusal<Wrong>([&] { hindsight.relabel(keys, std::span(wrong), std::span(distances)); },
                        {"goals are of another type", "scalar u64"});
  expect_refusal<Wrong>([&] { hindsight.relabel(keys, all.first(1), std::span(distances)); },
                        {"goals have 8 bytes", "2 keys * 8"});
  expect_refusal<Wrong>([&] { hindsight.relabel(keys, all, std::span(distances).first(1)); },
                        {"1 distances and 2 keys"});
  const std::vector<ItemKey> mixed = {
      keys[0], ItemKey::make(keys[1].slot(), keys[1].generation(), keys[1].tag() + 1)};
  expect_refusal<Wrong>([&] { hindsight.relabel(mixed, all, std::span(distances)); },
                        {"Hindsight::relabel: keys[1] has tag"});
  EXPECT_EQ(goals, std::vector(2, kOwn));
  EXPECT_EQ(distances, std::vector(2, 99));
}

}  // namespace
}  // namespace reprise::test
