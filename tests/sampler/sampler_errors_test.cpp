#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"
#include "testing/fixtures/not_finite.hpp"
#include "testing/fixtures/refusal.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace reprise::test {
namespace {

constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();

TEST(SamplerErrors, RefusesBadArgumentsAndStaysAsItWas) {
  Line line;
  line.append_many(0, 20, [](std::uint64_t i) { return static_cast<float>(i + 1); });
  Sampler sampler = line.replay.sampler({.seed = 5});
  Batch batch = line.replay.make_batch(8);
  const auto refused = [&](auto&& call, std::initializer_list<std::string_view> words) {
    expect_refusal<std::invalid_argument>(call, words);
  };
  refused([&] { (void)sampler.sample(0); }, {"0"});
  refused([&] { (void)sampler.sample(kMost); }, {"18446744073709551615"});
  refused([&] { (void)sampler.sample(std::size_t{1} << 60U); }, {"1152921504606846976"});
  refused([&] { (void)sampler.sample(4, {.beta = -0.5F}); }, {"beta", "-0.5"});
  refused([&] { (void)sampler.sample(4, {.beta = 1.5F}); }, {"beta", "1.5"});
  refused([&] { (void)sampler.sample(4, {.beta = kNaN}); }, {"beta", "nan"});
  refused([&] { (void)sampler.sample(4, {.timeout = std::chrono::nanoseconds(-5)}); },
          {"timeout", "-5"});
  refused([&] { (void)sampler.sample_into(batch, 0, 0); }, {"0"});
  refused([&] { (void)sampler.sample_into(batch, 4, 5); }, {"8"});
  refused([&] { (void)sampler.sample_into(batch, kMost, 2); }, {"8"});
  refused([&] { (void)line.replay.selector(2).sampler(); }, {"selector", "2"});
  EXPECT_EQ(batch.size(), 0U);
  EXPECT_EQ(line.replay.stats().sampled_batches, 0U);

  Sampler untouched = line.replay.sampler({.seed = 5});
  const SampleResult expected = untouched.sample(64);
  const SampleResult actual = sampler.sample(64);
  ASSERT_TRUE(expected && actual);
  EXPECT_TRUE(std::ranges::equal(expected->keys(), actual->keys())) << "its generator moved on";
}

TEST(SamplerErrors, RefusesABatchOfAnotherSchemaOrWindow) {
  Line line;
  line.append_many(0, 5);
  Sampler sampler = line.replay.sampler();
  Schema schema;
  schema.observation<float>("state");
  const ReplayBuffer stranger(schema, Small{});
  Batch strange = stranger.make_batch(8);
  EXPECT_THROW((void)sampler.sample_into(strange, 0, 4), std::invalid_argument);
  const Line stacked(Small{.window = Transitions{.frame_stack = 3}});
  Batch wide = stacked.replay.make_batch(8);
  EXPECT_THROW((void)sampler.sample_into(wide, 0, 4), std::invalid_argument);
  EXPECT_THROW((void)line.replay.make_batch(0), std::invalid_argument);
}

}  // namespace
}  // namespace reprise::test
