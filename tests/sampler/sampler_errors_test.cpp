#include "testing/fixtures/not_finite.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

constexpr std::size_t kMaxSize = std::numeric_limits<std::size_t>::max();

TEST(SamplerErrors, RefusesBadArgumentsAndStaysAsItWas) {
  NumberedBuffer line;
  line.append_many(0, 20, [](std::uint64_t i) { return static_cast<float>(i + 1); });
  Sampler sampler = line.replay.sampler({.seed = 5});
  Batch batch = line.replay.make_batch(8);
  const auto refused = [&](auto&& call, std::initializer_list<std::string_view> words) {
    expect_refusal(call, words);
  };
  refused([&] { (void)sampler.sample(0); }, {"0"});
  refused([&] { (void)sampler.sample(kMaxSize); }, {"18446744073709551615"});
  refused([&] { (void)sampler.sample(std::size_t{1} << 60U); }, {"1152921504606846976"});
  refused([&] { (void)sampler.sample(4, {.beta = -0.5F}); }, {"beta", "-0.5"});
  refused([&] { (void)sampler.sample(4, {.beta = 1.5F}); }, {"beta", "1.5"});
  refused([&] { (void)sampler.sample(4, {.beta = kNaN}); }, {"beta", "nan"});
  refused([&] { (void)sampler.sample(4, {.timeout = std::chrono::nanoseconds(-5)}); },
          {"timeout", "-5"});
  refused([&] { (void)sampler.sample_into(batch, 0, 0); }, {"0"});
  refused([&] { (void)sampler.sample_into(batch, 4, 5); }, {"8"});
  refused([&] { (void)sampler.sample_into(batch, kMaxSize, 2); }, {"8"});
  refused([&] { (void)line.replay.selector(2).sampler(); }, {"selector", "2"});
  EXPECT_EQ(batch.size(), 0U);
  EXPECT_EQ(line.replay.stats().sampled_batches, 0U);

  Sampler untouched = line.replay.sampler({.seed = 5});
  const SampleResult expected = untouched.sample(64);
  const SampleResult actual = sampler.sample(64);
  ASSERT_TRUE(expected && actual);
  EXPECT_TRUE(std::ranges::equal(expected->keys(), actual->keys())) << "its generator moved on";
}

TEST(SamplerErrors, RefusesTargetsThatTheWindowDoesNotHave) {
  NumberedBuffer line(SmallOptions{.window = Transitions{.n_step = 3}});
  line.append_many(0, 20);
  Sampler sampler = line.replay.sampler();
  const auto refused = [](Sampler& of, const SampleOptions& options,
                          std::initializer_list<std::string_view> words) {
    expect_refusal([&] { (void)of.sample(4, options); }, words);
    expect_refusal([&] { const Prefetcher ahead(of, 4, options); }, words);
  };
  refused(sampler, {.n_step = 4}, {"n_step is 4", "1 to that of the window, 3"});
  refused(sampler, {.n_step = 0}, {"n_step is 0", "1 to that of the window, 3"});
  refused(sampler, {.discount = 1.5F}, {"discount is 1.5", "0 to 1"});
  refused(sampler, {.discount = kNaN}, {"discount is nan", "0 to 1"});
  NumberedBuffer sequences(SmallOptions{.window = Sequences{.length = 4, .period = 2}});
  sequences.append_many(0, 20);
  Sampler of_sequences = sequences.replay.sampler();
  refused(of_sequences, {.n_step = 1}, {"n_step is 1", "Sequences without n_step"});
  refused(of_sequences, {.discount = 0.5F}, {"discount is 0.5", "Sequences without n_step"});
  EXPECT_THROW((void)of_sequences.sample(4)->returns(sequences.reward), std::logic_error);
}

TEST(SamplerErrors, RefusesABatchOfAnotherSchemaOrWindow) {
  NumberedBuffer line;
  line.append_many(0, 5);
  Sampler sampler = line.replay.sampler();
  Schema schema;
  schema.observation<float>("state");
  const ReplayBuffer stranger(schema, SmallOptions{});
  Batch strange = stranger.make_batch(8);
  EXPECT_THROW((void)sampler.sample_into(strange, 0, 4), std::invalid_argument);
  const NumberedBuffer stacked(SmallOptions{.window = Transitions{.frame_stack = 3}});
  Batch wide = stacked.replay.make_batch(8);
  EXPECT_THROW((void)sampler.sample_into(wide, 0, 4), std::invalid_argument);
  EXPECT_THROW((void)line.replay.make_batch(0), std::invalid_argument);
}

}  // namespace
}  // namespace reprise::test
