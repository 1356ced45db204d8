#include "testing/faults/counting_resource.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// Appends items 0 to count - 1. The priority of each, which is also its weight, is its number + 1.
void append_ramp(NumberedBuffer& line, Writer& writer, std::uint64_t count) {
  line.append_many(writer, 0, count, [&](std::uint64_t i) { return static_cast<float>(i + 1); });
}

TEST(Sampler, StratifiedDrawsTakeEachItemAsOftenAsItsShareSays) {
  for (const std::size_t shards : {1U, 3U}) {
    NumberedBuffer line(SmallOptions{.shards = shards});
    Writer writer = line.replay.writer();
    append_ramp(line, writer, 40);
    Sampler sampler = line.replay.sampler({.seed = 2});
    constexpr std::size_t kDraws = 1000;
    for (int repeat = 0; repeat < 20; ++repeat) {
      const SampleResult batch = require_batch(sampler.sample(kDraws));
      std::vector<double> counts(40);
      for (const std::uint64_t number : batch->now(line.id)) {
        counts[number] += 1.0;
      }
      for (std::size_t i = 0; i < counts.size(); ++i) {
        constexpr double kTotalWeight = 40.0 * 41.0 / 2.0;
        const double expected = static_cast<double>(kDraws * (i + 1)) / kTotalWeight;
        // The item has all draws of the strata within its share, and some of the stratum at each
        // end.
        EXPECT_LT(std::abs(counts[i] - expected), 2.0) << "item " << i << " of " << expected;
      }
    }
  }
}

TEST(Sampler, WithoutGatherGivesKeysWeightsAndProbabilitiesOnly) {
  NumberedBuffer line;
  Writer writer = line.replay.writer();
  append_ramp(line, writer, 20);
  Sampler with = line.replay.sampler({.seed = 5});
  Sampler without = line.replay.sampler({.seed = 5});
  Batch batch = line.replay.make_batch(16);
  ASSERT_EQ(without.sample_into(batch, 0, 16).code, SampleStatus::Code::Ok);
  ASSERT_TRUE(with.sample(16));
  const std::vector<std::uint64_t> ids(batch.now(line.id).begin(), batch.now(line.id).end());
  ASSERT_EQ(without.sample_into(batch, 0, 16, {.gather = false}).code, SampleStatus::Code::Ok);
  const SampleResult full = require_batch(with.sample(16));
  EXPECT_TRUE(std::ranges::equal(batch.keys(), full->keys()));
  EXPECT_TRUE(std::ranges::equal(batch.weights(), full->weights()));
  EXPECT_TRUE(std::ranges::equal(batch.probabilities(), full->probabilities()));
  EXPECT_TRUE(std::ranges::equal(batch.now(line.id), ids)) << "fields are left as they were";
}

TEST(Sampler, ReusesItsMemory) {
  NumberedBuffer line;
  line.append_many(0, 20);
  CountingResource memory;
  {
    Sampler sampler = line.replay.sampler({.memory = &memory});
    const SampleResult first = require_batch(sampler.sample(64));
    const std::size_t allocations = memory.allocations();
    const auto* const data = first->now(line.id).data();
    EXPECT_GT(allocations, 0U);
    EXPECT_GE(memory.live_bytes(), 64 * line.schema.step_bytes());
    for (const std::size_t n : {64U, 1U, 63U, 64U}) {
      const SampleResult again = require_batch(sampler.sample(n));
      EXPECT_EQ(again->size(), n);
      EXPECT_EQ(again->now(line.id).data(), data);
    }
    EXPECT_EQ(memory.allocations(), allocations);
    ASSERT_TRUE(sampler.sample(65));
    EXPECT_GT(memory.allocations(), allocations) << "memory is taken when n grows";
  }
  EXPECT_EQ(memory.live_bytes(), 0U);
}

TEST(Sampler, KeepsFieldsInTheUsersMemoryResource) {
  NumberedBuffer line;
  line.append_many(0, 20);
  CountingResource memory;
  {
    const Batch batch = line.replay.make_batch(32, &memory);
    EXPECT_EQ(batch.capacity(), 32U);
    EXPECT_EQ(batch.size(), 0U);
    EXPECT_GE(memory.live_bytes(), 32 * line.schema.step_bytes());
  }
  EXPECT_EQ(memory.live_bytes(), 0U);
  {
    Sampler sampler = line.replay.sampler({.memory = &memory});
    const SampleResult batch = require_batch(sampler.sample(32));
    EXPECT_TRUE(memory.in_last_block(batch->now(line.id).data()));
    EXPECT_TRUE(memory.in_last_block(batch->next(line.id).data()));
    EXPECT_TRUE(memory.in_last_block(batch->returns(line.reward).data()));
  }
  EXPECT_EQ(memory.live_bytes(), 0U);
}

TEST(Sampler, MixesTwoBuffersIntoOneBatch) {
  Options options = SmallOptions{};
  NumberedBuffer one(options);
  options.key_tag = 8;
  NumberedBuffer other(options);
  Writer to_one = one.replay.writer();
  append_ramp(one, to_one, 10);
  other.append_many(100, 10);
  Sampler from_one = one.replay.sampler({.seed = 1});
  Sampler from_other = other.replay.sampler({.seed = 1});
  Batch batch = one.replay.make_batch(24);
  ASSERT_EQ(from_one.sample_into(batch, 0, 16).code, SampleStatus::Code::Ok);
  EXPECT_EQ(batch.size(), 16U);
  ASSERT_EQ(from_other.sample_into(batch, 16, 8).code, SampleStatus::Code::Ok);
  EXPECT_EQ(batch.size(), 24U);
  float largest_of_one = 0.0F;
  for (std::size_t i = 0; i < 24; ++i) {
    const std::uint64_t number = batch.now(one.id)[i];
    EXPECT_EQ(batch.keys()[i].tag(), i < 16 ? 7U : 8U);
    EXPECT_TRUE(i < 16 ? number < 10 : number >= 100 && number < 110) << number;
    EXPECT_EQ(batch.next(one.id)[i], number + 1);
    EXPECT_EQ(batch.now(one.action)[i], number);
    EXPECT_EQ(batch.now(one.reward)[i], static_cast<float>(number));
    EXPECT_EQ(batch.returns(one.reward)[i], static_cast<float>(number));
    largest_of_one = i < 16 ? std::max(largest_of_one, batch.weights()[i]) : largest_of_one;
    if (i >= 16) {
      EXPECT_EQ(batch.weights()[i], 1.0F) << "normalised over its own part";
    }
  }
  EXPECT_EQ(largest_of_one, 1.0F);
  // Filling the middle of the batch again must not change the rest.
  const std::vector<std::uint64_t> before(batch.now(one.id).begin(), batch.now(one.id).end());
  ASSERT_EQ(from_other.sample_into(batch, 4, 4).code, SampleStatus::Code::Ok);
  EXPECT_EQ(batch.size(), 24U);
  for (std::size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(batch.returns(one.reward)[i], static_cast<float>(batch.now(one.id)[i]));
    if (i < 4 || i >= 8) {
      EXPECT_EQ(batch.now(one.id)[i], before[i]);
    } else {
      EXPECT_GE(batch.now(one.id)[i], 100U);
    }
  }
}

TEST(Sampler, BatchesOutliveSamplerAndBuffer) {
  std::optional<NumberedBuffer> line(std::in_place);
  Writer writer = line->replay.writer();
  line->append_many(writer, 3, 1);
  const auto id = line->id;
  Batch batch = line->replay.make_batch(2);
  Sampler sampler = line->replay.sampler();
  ASSERT_EQ(sampler.sample_into(batch, 0, 2).code, SampleStatus::Code::Ok);
  line.reset();
  EXPECT_EQ(sampler.sample(1).status().code, SampleStatus::Code::Closed);
  EXPECT_EQ(batch.now(id)[1], 3U);
  batch.now(id)[1] = 4;
  EXPECT_EQ(batch.now(id)[1], 4U) << "the learner's own copy";
}

}  // namespace
}  // namespace reprise::test
