#include "testing/test.hpp"

// With `Fifo` no step stays much longer than the capacity, however steps arrive (invariant I13).

namespace reprise::test {
namespace {

/// How steps arrive at a buffer.
struct Inflow {
  std::size_t capacity = 2000;
  std::size_t writers = 1;
  std::size_t shards = 4;
  std::size_t chunk_steps = 0;
  std::size_t max_writers = 16;
  std::uint64_t episode = 60;  ///< Steps per episode.
  /// The number of episodes after which another writer replaces a writer; 0 for never.
  std::uint64_t episodes_per_writer = 0;
  /// If not 0, the first writer appends one of every `pause` steps, and the others the rest.
  std::uint64_t pause = 0;
  std::uint32_t max_times_sampled = 0;  ///< If not 0, nothing is drawn before the end.

  friend std::ostream& operator<<(std::ostream& to, const Inflow& of) {
    return to << of.capacity << " steps, " << of.writers << " writers of " << of.max_writers << ", "
              << of.shards << " shards, chunks of " << of.chunk_steps << ", episodes of "
              << of.episode << ", writers of " << of.episodes_per_writer << " episodes, a pause of "
              << of.pause << ", at most " << of.max_times_sampled << " draws";
  }
};

Options options_of(const Inflow& of) {
  return SmallOptions{.capacity_steps = of.capacity,
                      .window = Transitions{},
                      .selectors = {Uniform{}},
                      .max_times_sampled = of.max_times_sampled,
                      .max_writers = of.max_writers,
                      .chunk_steps = of.chunk_steps,
                      .shards = of.shards};
}

/// The greatest age allowed, in steps: the capacity, an open chunk per writer, a chunk per shard.
std::uint64_t max_item_age(const Inflow& of, const ReplayBuffer& replay) {
  return of.capacity + (of.writers + of.shards) * replay.options().chunk_steps;
}

/// The numbers of all items of a buffer, each drawn once.
std::vector<std::uint64_t> all_numbers(const NumberedBuffer& line, Sampler& sampler) {
  const std::size_t items = line.replay.size();
  const auto batch = sampler.sample(items, {.draws = Draws::WithoutReplacement});
  const auto numbers = batch->now(line.action);
  return {numbers.begin(), numbers.end()};
}

class StepsOfFifo : public testing::TestWithParam<Inflow> {};

TEST_P(StepsOfFifo, AreNoOlderThanTheCapacityAndTheOpenChunks) {
  const Inflow& of = GetParam();
  NumberedBuffer line(options_of(of));
  Sampler sampler = line.replay.sampler({.seed = 1});
  std::vector<std::optional<Writer>> writers(of.writers);
  std::vector<std::uint64_t> episodes(of.writers);
  const std::uint64_t steps = 6 * of.capacity;
  for (std::uint64_t number = 0; number < steps; ++number) {
    const bool slow = of.pause != 0 && number % of.pause == 0;
    const std::size_t fast = of.pause != 0 && of.writers > 1 ? 1 : 0;
    const std::size_t w = slow ? 0 : fast + number % (of.writers - fast);
    std::optional<Writer>& writer = writers[w];
    if (!writer) {
      writer.emplace(line.replay.writer());
    }
    const std::uint64_t before = writer->in_episode() ? writer->episode_steps() : 0;
    const bool ends = before + 1 == of.episode;
    ASSERT_EQ(line.append(*writer, number, ends ? End::Terminated : End::Continue),
              CommitStatus::Committed);
    if (ends && of.episodes_per_writer != 0 && ++episodes[w] % of.episodes_per_writer == 0) {
      writer.reset();
    }
    const bool look = of.max_times_sampled == 0 && number % (of.capacity / 3) == 0;
    if (look || number + 1 == steps) {
      const std::vector<std::uint64_t> numbers = all_numbers(line, sampler);
      ASSERT_EQ(numbers.size(), std::min<std::uint64_t>(number + 1, of.capacity))
          << "the whole capacity is in use";
      ASSERT_LE(number - *std::ranges::min_element(numbers), max_item_age(of, line.replay));
    }
  }
  const Stats stats = line.replay.stats();
  EXPECT_EQ(stats.resident_steps, of.capacity);
  EXPECT_EQ(stats.excess_steps, 0U);
  expect_steps_add_up(line.replay);
}

std::vector<Inflow> inflows() {
  std::vector<Inflow> all;
  Rng rng(13);
  for (const std::size_t writers : {1U, 2U, 3U, 5U, 8U, 12U}) {
    for (const std::size_t shards : {1U, 2U, 3U, 4U, 8U, 16U}) {
      for (const std::uint64_t episode : {1U, 2U, 59U, 60U, 200U}) {
        Inflow of{.writers = writers, .shards = shards, .episode = episode};
        of.chunk_steps = rng.chance(0.5) ? 0 : rng.between(2, 90);
        of.episodes_per_writer = rng.chance(0.3) ? rng.between(1, 3) : 0;
        of.pause = rng.chance(0.3) ? rng.between(5, 500) : 0;
        of.max_times_sampled = rng.chance(0.2) ? 1 : 0;
        all.push_back(of);
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(FifoAge, StepsOfFifo, testing::ValuesIn(inflows()));

TEST(FifoAge, OneEnvironmentWithDefaultOptionsReplacesTheWholeBuffer) {
  const Inflow of{.capacity = 50'000, .shards = 0, .max_writers = 256};
  NumberedBuffer line(options_of(of));
  for (std::uint64_t number = 0; number < 4 * of.capacity; ++number) {
    line.append(number, number % 60 == 59 ? End::Terminated : End::Continue);
  }
  Sampler sampler = line.replay.sampler({.seed = 1});
  const std::vector<std::uint64_t> numbers = all_numbers(line, sampler);
  EXPECT_EQ(numbers.size(), of.capacity);
  // With four shards, the oldest step is at most five chunks older than the capacity.
  EXPECT_GE(*std::ranges::min_element(numbers),
            3 * of.capacity - 5 * line.replay.options().chunk_steps);
}

}  // namespace
}  // namespace reprise::test
