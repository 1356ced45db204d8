#include <reprise/reprise.hpp>

#include "../support/allocation_sweep.hpp"
#include "../support/line.hpp"
#include "../support/model_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace reprise::test {
namespace {

TEST(AllocationFailure, WhileMakingASchemaLeavesItAsItWas) {
  Schema schema;
  schema.reward("reward");
  const Schema before = schema;
  sweep(
      [&] {
        schema.observation<float>("a name too long for the small string", {84, 84});
      },
      [&] { EXPECT_TRUE(schema == before); });
  EXPECT_EQ(schema.fields().size(), 2U);
}

TEST(AllocationFailure, WhileMakingABufferThrowsAndLeaksNothing) {
  Schema schema;
  schema.observation<float>("state", {4});
  const Options options = small_options();
  std::optional<ReplayBuffer> replay;
  sweep([&] { replay.emplace(schema, options); }, [&] { EXPECT_FALSE(replay.has_value()); });
  ASSERT_TRUE(replay.has_value());
  EXPECT_EQ(replay->size(), 0U);
}

TEST(AllocationFailure, WhileMakingAWriterLeavesNoWriterBehind) {
  Line line;
  std::optional<Writer> writer;
  sweep([&] { writer.emplace(line.replay.writer()); },
        [&] { EXPECT_EQ(line.replay.stats().writers, 0U); });
  EXPECT_EQ(line.replay.stats().writers, 1U);
  line.append_many(*writer, 0, 100);
  EXPECT_EQ(line.replay.size(), 64U);
}

TEST(AllocationFailure, WhileMakingManyWritersLeavesNoneBehind) {
  Line line;
  std::optional<VectorWriter> writers;
  sweep([&] { writers.emplace(line.replay, 5); },
        [&] { EXPECT_EQ(line.replay.stats().writers, 0U); });
  EXPECT_EQ(line.replay.stats().writers, 5U);
}

TEST(AllocationFailure, WhileAppendingLosesNoStep) {
  Options options = small_options();
  options.window = Transitions{.n_step = 3, .frame_stack = 2};
  Line line(options);
  Writer writer = line.replay.writer();
  for (std::uint64_t number = 0; number < 200; ++number) {
    const End end = number % 30 == 29 ? End::Truncated : End::Continue;
    sweep([&] { (void)line.append(writer, number, end); },
          [&] { EXPECT_EQ(line.replay.stats().committed_steps, number); });
    ASSERT_EQ(line.replay.stats().committed_steps, number + 1);
  }
  EXPECT_EQ(line.replay.size(), 64U);
  expect_accounted(line.replay);
}

TEST(AllocationFailure, WhileSamplingLeavesTheSamplerAsItWas) {
  Line line;
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 64);
  std::optional<Sampler> sampler;
  sweep([&] { sampler.emplace(line.replay.sampler({.seed = 4})); },
        [&] { EXPECT_FALSE(sampler.has_value()); });
  Sampler untouched = line.replay.sampler({.seed = 4});
  for (const std::size_t n : {16U, 500U, 8U, 3000U}) {
    bool drawn = false;
    sweep([&] { drawn = static_cast<bool>(sampler->sample(n)); }, [&] { EXPECT_FALSE(drawn); });
    ASSERT_TRUE(drawn && untouched.sample(n));
    const SampleResult expected = untouched.sample(n);
    const SampleResult actual = sampler->sample(n);
    ASSERT_TRUE(expected && actual);
    EXPECT_TRUE(std::ranges::equal(expected->keys(), actual->keys()))
        << "a failed call moved the generator on";
  }
  EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
}

TEST(AllocationFailure, WhileUpdatingChangesNothing) {
  Options options = small_options();
  options.shards = 3;
  Line line(options);
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 64);
  std::vector<ItemKey> keys;
  for (const auto& [number, key] : line.keys()) {
    keys.push_back(key);
  }
  const auto before = line.probabilities();
  std::vector<float> priorities(64);
  for (std::size_t i = 0; i < 64; ++i) {
    priorities[i] = static_cast<float>(i + 1);
  }
  sweep([&] { line.replay.update_priorities(keys, priorities); },
        [&] { EXPECT_EQ(line.probabilities(), before); });
  EXPECT_NEAR(line.probabilities(1 << 14).at(63), 64.0 / 2080.0, 1e-13);
}

TEST(AllocationFailure, WhileMakingABatchOrAPrefetcherThrowsAndLeaksNothing) {
  Line line;
  std::optional<Batch> batch;
  sweep([&] { batch.emplace(line.replay.make_batch(32)); },
        [&] { EXPECT_FALSE(batch.has_value()); });
  std::optional<Prefetcher> prefetcher;
  sweep([&] { prefetcher.emplace(line.replay, std::size_t{16}); },
        [&] { EXPECT_FALSE(prefetcher.has_value()); });
}

}  // namespace
}  // namespace reprise::test
