#include "testing/test.hpp"

// With `Lifo` and `Queue`, and one draw per item, a buffer is a stack that samplers pop.
namespace reprise::test {
namespace {

using Numbers = std::vector<std::uint64_t>;

/// `max_items`: the most items in the queue at a time, with those by which writers overshoot
/// `size`. The capacity is the smallest for which `Queue` promises to lose no items.
Options stack_options(std::size_t size, std::size_t max_items, std::size_t shards) {
  Options options = SmallOptions{.selectors = {Lifo{}},
                                 .max_times_sampled = 1,
                                 .rate_limiter = Queue{.size = size},
                                 .shards = shards};
  options.capacity_steps = shards * max_items * options.chunk_steps;
  return options;
}

Numbers ids_of(const NumberedBuffer& line, const Batch& batch) {
  const auto ids = batch.now(line.id);
  return {ids.begin(), ids.end()};
}

TEST(Stack, AgreesWithAVectorOverRandomPushesAndPops) {
  for (std::uint64_t seed = 1; seed <= scaled(60); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const std::size_t size = rng.between(1, 40);
    NumberedBuffer line(stack_options(size, size, rng.between(1, 3)));
    Writer writer = line.replay.writer({.timeout = 0ns});
    Sampler sampler = line.replay.sampler();
    Numbers model;
    std::uint64_t next = 0;
    for (int round = 0; round < 400; ++round) {
      // The number of items rises and falls, so that many chunks have few items left.
      for (std::size_t pushes = rng.below(7); pushes != 0; --pushes) {
        const End end = rng.chance(0.05) ? End::Terminated : End::Continue;
        const bool room = model.size() < size;
        const CommitStatus status = line.append(writer, next, end);
        ASSERT_EQ(status == CommitStatus::Committed, room) << "with " << model.size() << " items";
        if (room) {
          model.push_back(next++);
        }
      }
      const std::size_t n = rng.between(1, 3);
      const SampleResult batch = sampler.sample(std::min(n, size), kNoWait);
      ASSERT_EQ(static_cast<bool>(batch), model.size() >= std::min(n, size));
      if (batch) {
        Numbers ids = ids_of(line, *batch);
        std::sort(ids.begin(), ids.end());
        const auto top = model.end() - static_cast<std::ptrdiff_t>(ids.size());
        ASSERT_EQ(ids, Numbers(top, model.end()));
        model.erase(top, model.end());
      }
    }
    for (; !model.empty(); model.pop_back()) {
      const SampleResult batch = sampler.sample(1, kNoWait);
      ASSERT_TRUE(batch) << model.size() << " items are lost";
      ASSERT_EQ(ids_of(line, *batch), Numbers{model.back()});
    }
    ASSERT_FALSE(sampler.sample(1, kNoWait));
  }
}

TEST(Stack, GivesEveryItemOnceToManySamplersBesideManyWriters) {
  constexpr std::size_t kWriters = 3;
  constexpr std::size_t kSamplers = 2;
  constexpr std::size_t kStacked = 32;
  /// Inserts that a writer books at a time: 32 / (2 * 8 writers).
  constexpr std::size_t kBooked = 2;
  constexpr std::uint64_t kNumbersPerWriter = 1'000'000;
  const std::size_t steps = scaled(6000, 600);
  for (const std::size_t n : {1U, 4U}) {
    NumberedBuffer line(stack_options(kStacked, kStacked + kWriters * kBooked, 2));
    std::mutex mutex;
    std::map<std::uint64_t, std::size_t> counts;
    {
      std::vector<std::jthread> samplers;
      std::vector<std::jthread> writers;
      samplers.reserve(kSamplers);
      for (std::size_t s = 0; s < kSamplers; ++s) {
        samplers.emplace_back([&, s](const std::stop_token& stop) {
          Sampler sampler =
              line.replay.sampler({.seed = s, .parallel_gather_bytes = kNoParallelGather});
          while (const SampleResult batch = sampler.sample(n, {.stop = stop})) {
            const std::lock_guard lock(mutex);
            for (const std::uint64_t id : ids_of(line, *batch)) {
              ++counts[id];
            }
          }
        });
      }
      start(writers, kWriters, [&](std::size_t w) {
        Writer writer = line.replay.writer();
        for (std::uint64_t i = 0; i < steps; ++i) {
          ASSERT_EQ(line.append(writer, w * kNumbersPerWriter + i), CommitStatus::Committed);
        }
      });
    }
    Sampler sampler = line.replay.sampler();
    while (const SampleResult batch = sampler.sample(1, kNoWait)) {
      ++counts[ids_of(line, *batch)[0]];
    }
    EXPECT_EQ(counts.size(), kWriters * steps) << "items are lost";
    for (const auto& [id, times] : counts) {
      ASSERT_EQ(times, 1U) << "item " << id;
    }
    expect_steps_add_up(line.replay);
  }
}

}  // namespace
}  // namespace reprise::test
