#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"
#include "testing/fixtures/refusal.hpp"
#include "testing/fixtures/rng.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace reprise::test {
namespace {

using Step = std::pair<std::uint64_t, std::uint64_t>;  ///< Episode and position.

Options indexed_options() {
  return Small{.capacity_steps = 150, .episode_index = true, .chunk_steps = 12, .shards = 2};
}

/// Every item in the buffer, by the step that it begins with.
std::map<Step, ItemKey> items_of(ReplayBuffer& replay) {
  std::map<Step, ItemKey> items;
  const std::size_t size = replay.size();
  Sampler sampler = replay.sampler({.selector = replay.options().selectors.size() - 1});
  const SampleResult batch = sampler.sample(8 * size + 1, kAtOnce);
  for (std::size_t i = 0; batch && i < batch->size(); ++i) {
    items.emplace(Step{batch->episode_ids()[i], batch->positions()[i]}, batch->keys()[i]);
  }
  return items;
}

TEST(EpisodeIndex, FindsExactlyWhatIsThereUnderRandomAppends) {
  const std::uint64_t seed = 20261103;
  const std::vector<Window> windows{Transitions{}, Transitions{.n_step = 3, .frame_stack = 2},
                                    Sequences{.length = 4, .period = 2}};
  for (std::size_t w = 0; w < windows.size(); ++w) {
    for (const double end_chance : {0.02, 0.3, 1.0}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", window " << w << ", " << end_chance);
      Rng rng(seed + w);
      Line line(Small{.capacity_steps = 150,
                      .window = windows[w],
                      .episode_index = true,
                      .chunk_steps = 12,
                      .shards = 2});
      std::vector<Writer> writers;
      std::set<Step> committed;
      for (int i = 0; i < 3; ++i) {
        writers.push_back(line.replay.writer());
      }
      for (std::uint64_t i = 0; i < 1200; ++i) {
        Writer& writer = writers[rng.below(3)];
        if (rng.chance(0.01)) {
          writer = line.replay.writer();  // In the middle of an episode, perhaps.
        }
        const End end = rng.chance(end_chance) ? End::Terminated : End::Continue;
        line.append(writer, i, end);
        committed.emplace(writer.episode_id(), writer.episode_steps() - 1);
        if (i % 60 != 59) {
          continue;
        }
        const std::map<Step, ItemKey> items = items_of(line.replay);
        ASSERT_FALSE(items.empty());
        for (const Step& step : committed) {
          const std::optional<ItemKey> key = line.replay.find(step.first, step.second);
          const auto item = items.find(step);
          ASSERT_EQ(key.has_value(), item != items.end())
              << "episode " << step.first << ", position " << step.second;
          if (key) {
            EXPECT_EQ(*key, item->second);
          }
        }
        EXPECT_FALSE(line.replay.find(committed.rbegin()->first + 5000, 0));
        EXPECT_FALSE(line.replay.find(committed.begin()->first, 1'000'000));
      }
    }
  }
}

TEST(EpisodeIndex, SetsThePrioritiesOfAnEpisodesSteps) {
  Line line(Small{.capacity_steps = 2000,
                  .window = Transitions{.n_step = 2},
                  .episode_index = true,
                  .chunk_steps = 12,
                  .shards = 2});
  Writer writer = line.replay.writer();
  constexpr std::size_t kSteps = 700;
  line.append_many(writer, 0, kSteps);
  std::vector<float> priorities(kSteps);
  for (std::size_t i = 0; i < kSteps; ++i) {
    priorities[i] = static_cast<float>(i % 5);
  }
  // The last step's window is not complete yet.
  const auto [applied, stale] =
      line.replay.update_episode_priorities(writer.episode_id(), 0, priorities);
  EXPECT_EQ(applied, kSteps - 1);
  EXPECT_EQ(stale, 1U);
  EXPECT_EQ(line.replay.stats().stale_updates, 1U);
  double total = 0.0;
  for (std::size_t i = 0; i + 1 < kSteps; ++i) {
    total += static_cast<double>(priorities[i]);
  }
  for (const auto& [number, probability] : line.probabilities(8 * kSteps)) {
    EXPECT_DOUBLE_EQ(probability, static_cast<double>(number % 5) / total) << number;
  }
  const float one = 3.0F;
  const auto some =
      line.replay.update_episode_priorities(writer.episode_id(), 10, std::span(&one, 1));
  EXPECT_EQ(some.applied, 1U);
  EXPECT_EQ(line.replay.update_episode_priorities(99'999, 0, priorities).stale, kSteps);
  const auto beyond = line.replay.update_episode_priorities(
      writer.episode_id(), std::numeric_limits<std::uint64_t>::max(), priorities);
  EXPECT_EQ(beyond.applied, 0U) << "positions do not go round";
  EXPECT_EQ(beyond.stale, kSteps);
}

TEST(EpisodeIndex, ChangesNothingForBadInput) {
  Line line(indexed_options());
  line.append_many(0, 3);
  const auto before = line.probabilities();
  const std::vector<float> bad{5.0F, 5.0F, 5.0F, std::numeric_limits<float>::quiet_NaN()};
  expect_refusal<std::invalid_argument>(
      [&] { line.replay.update_episode_priorities(line.writer().episode_id(), 0, bad); },
      {"priorities[3]", "nan", "allowed: "});
  expect_refusal<std::invalid_argument>(
      [&] { line.replay.update_episode_priorities(line.writer().episode_id(), 0, {}, 7); },
      {"selector is 7", "allowed: "});
  EXPECT_EQ(line.probabilities(), before);
}

TEST(EpisodeIndex, IsRefusedWhereThereIsNone) {
  Line line;
  expect_refusal<std::logic_error>([&] { static_cast<void>(line.replay.find(0, 0)); },
                                   {"Options::episode_index"});
  expect_refusal<std::logic_error>([&] { line.replay.update_episode_priorities(0, 0, {}); },
                                   {"Options::episode_index"});
}

TEST(EpisodeIndex, ItsMemoryIsReported) {
  const Line with(indexed_options());
  const Line without(
      Small{.capacity_steps = 150, .episode_index = false, .chunk_steps = 12, .shards = 2});
  EXPECT_GT(with.replay.stats().reserved_bytes, without.replay.stats().reserved_bytes);
}

}  // namespace
}  // namespace reprise::test
