#include "testing/test.hpp"

namespace reprise::test {
namespace {

using Numbers = std::vector<std::uint64_t>;

Options options_with(const Sequences& window) {
  return SmallOptions{.window = window, .selectors = {Uniform{}}, .chunk_steps = 0};
}

TEST(Sequences, OfShapedFieldsHaveTimeBeforeShape) {
  Schema schema;
  const auto frame = schema.observation<std::uint8_t>("frame", {2, 2});
  Options options = options_with({.length = 2, .period = 1, .burn_in = 1});
  ReplayBuffer replay(schema, options);
  Writer writer = replay.writer();
  writer.begin_episode();
  writer.now(frame)[3] = 0;
  for (std::uint8_t t = 0; t < 3; ++t) {
    for (std::uint8_t k = 0; k < 4; ++k) {
      writer.next(frame)[k] = static_cast<std::uint8_t>(10 * (t + 1) + k);
    }
    writer.commit();
  }
  Sampler sampler = replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(1, kNoWait));
  EXPECT_EQ(batch->shape(frame), (std::vector<std::size_t>{1, 3, 2, 2}));
  EXPECT_EQ(batch->next(frame)[0], 10);
  EXPECT_EQ(batch->next(frame)[11], 33);
}

using Floats = std::vector<float>;

/// The values of one item in a column of `steps` values per item.
Floats part(std::span<const float> column, std::size_t item, std::size_t steps) {
  const auto values = column.subspan(item * steps, steps);
  return {values.begin(), values.end()};
}

TEST(Sequences, HaveTheReturnsOfTransitionsBitForBit) {
  constexpr std::uint32_t kSteps = 30;
  constexpr std::uint32_t kLength = 9;
  constexpr std::uint32_t kPeriod = 5;
  Schema schema;
  const auto state = schema.observation<float>("state");
  const Reward rewards[] = {schema.reward("reward"), schema.reward("bonus")};
  const Discount own = schema.discount("own");
  const auto filled = [&](const Window& window) {
    auto replay = std::make_unique<ReplayBuffer>(
        schema, Options{.capacity_steps = 2 * kSteps, .window = window, .selectors = {Fifo{}}});
    Writer writer = replay->writer();
    writer.begin_episode();
    writer.now(state) = 0.0F;
    for (std::uint32_t t = 0; t < kSteps; ++t) {
      writer.now(rewards[0]) = 0.1F * static_cast<float>(t * t % 17);
      writer.now(rewards[1]) = -0.7F * static_cast<float>(t % 5);
      writer.now(own) = t % 7 == 6 ? 0.3F : 1.0F;
      writer.next(state) = static_cast<float>(t + 1);
      writer.commit(t + 1 == kSteps ? End::Terminated : End::Continue);
    }
    return replay;
  };
  for (const std::uint32_t n_step : {1U, 4U, 20U}) {
    const auto steps = filled(Transitions{.n_step = n_step, .discount = 0.97F});
    const auto whole = filled(
        Sequences{.length = kLength, .period = kPeriod, .n_step = n_step, .discount = 0.97F});
    Sampler of_steps = steps->sampler();
    Sampler of_whole = whole->sampler();
    const SampleResult singles = of_steps.sample(kSteps, kNoWait);
    const SampleResult items = of_whole.sample(kSteps / kPeriod, kNoWait);
    ASSERT_TRUE(singles && items);
    std::size_t compared = 0;
    for (std::size_t i = 0; i < items->size(); ++i) {
      for (std::uint32_t t = 0; t < items->lengths()[i]; ++t) {
        const std::size_t at = items->positions()[i] + t;
        if (t + singles->lengths()[at] > items->lengths()[i]) {
          continue;  // This return stops at the sequence's end.
        }
        ++compared;
        for (const Reward reward : rewards) {
          ASSERT_EQ(items->returns(reward)[i * kLength + t], singles->returns(reward)[at]) << at;
        }
        ASSERT_EQ(items->discounts()[i * kLength + t], singles->discounts()[at]) << at;
      }
    }
    EXPECT_GE(compared, 5U);
  }
}

TEST(Sequences, ThatAreGoneLeaveNoReturnsInTheBatch) {
  NumberedBuffer line(options_with({.length = 2, .period = 2, .n_step = 1}));
  line.append_many(1, 4);
  Sampler sampler = line.replay.sampler();
  const ItemKey key = require_batch(sampler.sample(1, kNoWait))->keys()[0];
  Batch batch = line.replay.make_batch(1);
  ASSERT_EQ(line.replay.gather({&key, 1}, batch), 1U);
  EXPECT_EQ(part(batch.discounts(), 0, 2), (Floats{0.99F, 0.99F}));
  line.replay.remove({&key, 1});
  EXPECT_EQ(line.replay.gather({&key, 1}, batch), 0U);
  EXPECT_EQ(part(batch.returns(line.reward), 0, 2), (Floats{0.0F, 0.0F}));
  EXPECT_EQ(part(batch.discounts(), 0, 2), (Floats{0.0F, 0.0F}));
}

}  // namespace
}  // namespace reprise::test
