#include <reprise/reprise.hpp>

#include "testing/fixtures/require_batch.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace reprise::test {
namespace {

TEST(WindowExamples, StackTheFirstFrameOrZerosBeforeAnEpisode) {
  for (const StackStart start : {StackStart::RepeatFirst, StackStart::Zeros}) {
    Schema schema;
    const auto frame = schema.observation<std::uint8_t>("frame", {2});
    ReplayBuffer replay(schema,
                        Options{.capacity_steps = 8,
                                .window = Transitions{.frame_stack = 3, .stack_start = start}});
    Writer writer = replay.writer();
    writer.begin_episode();
    writer.now(frame)[0] = 1;
    writer.now(frame)[1] = 2;
    writer.next(frame)[0] = 3;
    writer.next(frame)[1] = 4;
    writer.commit(End::Truncated);
    Sampler sampler = replay.sampler();
    const SampleResult batch = require_batch(sampler.sample(1));
    EXPECT_EQ(batch->shape(frame), (std::vector<std::size_t>{1, 3, 2}));
    const auto now = batch->now(frame);
    const auto next = batch->next(frame);
    const bool zeros = start == StackStart::Zeros;
    using Bytes = std::vector<std::uint8_t>;
    EXPECT_EQ(Bytes(now.begin(), now.end()),
              zeros ? (Bytes{0, 0, 0, 0, 1, 2}) : (Bytes{1, 2, 1, 2, 1, 2}));
    EXPECT_EQ(Bytes(next.begin(), next.end()),
              zeros ? (Bytes{0, 0, 1, 2, 3, 4}) : (Bytes{1, 2, 1, 2, 3, 4}));
  }
}

TEST(WindowExamples, ADiscountFieldScalesLaterRewardsAndTheDiscount) {
  Schema schema;
  const auto state = schema.observation<float>("state");
  const Reward reward = schema.reward("reward");
  const Reward bonus = schema.reward("bonus");
  const Discount discount = schema.discount("discount");
  ReplayBuffer replay(
      schema, Options{.capacity_steps = 8, .window = Transitions{.n_step = 3, .discount = 0.5F}});
  Writer writer = replay.writer();
  writer.begin_episode();
  writer.now(state) = 0.0F;
  const float discounts[] = {1.0F, 0.5F, 0.25F};
  for (int t = 0; t < 3; ++t) {
    writer.now(reward) = static_cast<float>(t + 1);
    writer.now(bonus) = 16.0F;
    writer.now(discount) = discounts[t];
    writer.next(state) = static_cast<float>(t + 1);
    writer.commit();
  }
  ASSERT_EQ(replay.size(), 1U);
  Sampler sampler = replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(1));
  EXPECT_EQ(batch->now(reward)[0], 1.0F) << "the raw reward of the step";
  EXPECT_EQ(batch->returns(reward)[0], 1.0F + 0.5F * 2.0F + 0.5F * 0.25F * 3.0F);
  EXPECT_EQ(batch->returns(bonus)[0], 16.0F * (1.0F + 0.5F + 0.125F)) << "each reward its own";
  EXPECT_EQ(batch->discounts()[0], 0.5F * 0.25F * 0.125F);
  EXPECT_EQ(batch->next(state)[0], 3.0F);
}

}  // namespace
}  // namespace reprise::test
