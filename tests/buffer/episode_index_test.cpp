#include "testing/test.hpp"

namespace reprise::test {
namespace {

Options indexed_options() {
  return SmallOptions{.capacity_steps = 150, .episode_index = true, .chunk_steps = 12, .shards = 2};
}

TEST(EpisodeIndex, SetsThePrioritiesOfAnEpisodesSteps) {
  NumberedBuffer line(SmallOptions{.capacity_steps = 2000,
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
  // The window of the last step is not complete, so that step is no item yet.
  const auto [applied, stale] =
      line.replay.episodes().update_priorities(writer.episode_id(), 0, priorities);
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
  const float priority = 3.0F;
  const auto single =
      line.replay.episodes().update_priorities(writer.episode_id(), 10, std::span(&priority, 1));
  EXPECT_EQ(single.applied, 1U);
  EXPECT_EQ(line.replay.episodes().update_priorities(99'999, 0, priorities).stale, kSteps);
  const auto beyond = line.replay.episodes().update_priorities(
      writer.episode_id(), std::numeric_limits<std::uint64_t>::max(), priorities);
  EXPECT_EQ(beyond.applied, 0U) << "positions do not wrap around to 0";
  EXPECT_EQ(beyond.stale, kSteps);
}

TEST(EpisodeIndex, ChangesNothingForBadInput) {
  NumberedBuffer line(indexed_options());
  line.append_many(0, 3);
  const auto before = line.probabilities();
  const std::vector<float> bad{5.0F, 5.0F, 5.0F, std::numeric_limits<float>::quiet_NaN()};
  expect_refusal(
      [&] { line.replay.episodes().update_priorities(line.writer().episode_id(), 0, bad); },
      {"priorities[3]", "nan", "allowed: "});
  expect_refusal(
      [&] { line.replay.episodes().update_priorities(line.writer().episode_id(), 0, {}, 7); },
      {"selector is 7", "allowed: "});
  EXPECT_EQ(line.probabilities(), before);
}

TEST(EpisodeIndex, IsRefusedInABufferWithoutAnIndex) {
  NumberedBuffer line;
  expect_refusal<std::logic_error>([&] { (void)line.replay.episodes(); },
                                   {"Options::episode_index"});
}

TEST(EpisodeIndex, ItsMemoryIsReported) {
  const NumberedBuffer with(indexed_options());
  const NumberedBuffer without(
      SmallOptions{.capacity_steps = 150, .episode_index = false, .chunk_steps = 12, .shards = 2});
  EXPECT_GT(with.replay.stats().reserved_bytes, without.replay.stats().reserved_bytes);
}

}  // namespace
}  // namespace reprise::test
