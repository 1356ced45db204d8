#include <reprise/strategy_kind.hpp>

#include "process/hosted.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// The parts of the refusal that a call throws, as text, each with the number of its kind before
/// it; empty if the call does not throw.
template <class Call>
std::string refusal_of(const Call& call) {
  std::string parts;
  try {
    call();
  } catch (const std::exception& error) {
    for (const auto& [kind, text] : dynamic_cast<const Refusal&>(error).parts()) {
      parts += std::to_string(static_cast<int>(kind)) + text + "|";
    }
  }
  return parts;
}

TEST(GuestSampler, GivesTheBatchesOfASamplerOfTheHost) {
  SharedNumberedBuffer line(
      SmallOptions{.capacity_steps = 1'000, .window = Transitions{.n_step = 2, .frame_stack = 3}});
  line.append_many(0, 1'000);
  for (const bool unique : {false, true}) {
    Sampler of_host = line.replay.sampler({.seed = 5, .unique_frames = unique});
    GuestSampler of_guest = line.guest.sampler({.seed = 5, .unique_frames = unique});
    for (const std::size_t n : {1U, 64U, 64U, 7U, 500U}) {
      SampleOptions options{.beta = 0.7F};
      if (n % 2 == 1) {
        options.n_step = 1;
        options.discount = 0.25F;
      }
      const auto a = require_batch(of_host.sample(n, options));
      const auto b = require_batch(of_guest.sample(n, options));
      ASSERT_EQ(b->size(), n);
      EXPECT_TRUE(std::ranges::equal(a->keys(), b->keys()));
      EXPECT_TRUE(std::ranges::equal(a->weights(), b->weights()));
      EXPECT_TRUE(std::ranges::equal(a->probabilities(), b->probabilities()));
      EXPECT_TRUE(std::ranges::equal(a->returns(line.reward), b->returns(line.reward)));
      EXPECT_TRUE(std::ranges::equal(a->discounts(), b->discounts()));
      EXPECT_TRUE(unique ? std::ranges::equal(a->frames(line.id), b->frames(line.id))
                         : std::ranges::equal(a->now(line.id), b->now(line.id)));
    }
  }
}

TEST(GuestSampler, RefusesTargetsThatTheWindowDoesNotHave) {
  SharedNumberedBuffer line(SmallOptions{.window = Transitions{.n_step = 3}});
  line.append_many(0, 64);
  GuestSampler sampler = line.guest.sampler();
  EXPECT_THROW((void)sampler.sample(4, {.n_step = 0}), std::invalid_argument);
  EXPECT_THROW((void)sampler.sample(4, {.n_step = 4}), std::invalid_argument);
  EXPECT_THROW((void)sampler.sample(4, {.discount = -1.0F}), std::invalid_argument);
}

TEST(GuestSampler, FillsABatchOfTheCaller) {
  SharedNumberedBuffer line;
  line.append_many(0, 64, 1.0F);
  GuestSampler sampler = line.guest.sampler();
  Batch batch = sampler.make_batch(20);
  ASSERT_EQ(sampler.sample_into(batch, 5, 10).code, SampleStatus::Code::Ok);
  EXPECT_EQ(batch.size(), 15U);
  ASSERT_EQ(sampler.sample_into(batch).code, SampleStatus::Code::Ok);
  EXPECT_EQ(batch.size(), 20U);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(batch.now(line.id)[i], batch.now(line.action)[i]);
  }
  EXPECT_THROW(sampler.sample_into(batch, 15, 6), std::invalid_argument);
}

TEST(GuestSampler, UpdatesPrioritiesOfTheSelectorThatItDrawsBy) {
  SharedNumberedBuffer line(SmallOptions{.selectors = {kRawProportional, kRawProportional}});
  line.append_many(0, 32, 1.0F);
  GuestSampler sampler = line.guest.sampler({}, 1);
  const auto drawn = require_batch(sampler.sample(32));
  const std::vector<ItemKey> keys(drawn->keys().begin(), drawn->keys().end());
  const std::vector<float> zeros(keys.size(), 0.0F);
  EXPECT_GT(sampler.update_priorities(keys, zeros).applied, 0U);
  EXPECT_LT(line.probabilities(4096, 1).size(), 32U);
  EXPECT_EQ(line.probabilities(4096, 0).size(), 32U);
  EXPECT_GT(line.guest.update_priorities(keys, zeros).applied, 0U);
  EXPECT_LT(line.probabilities(4096, 0).size(), 32U);
}

TEST(GuestSampler, WaitsForItemsThatAnotherGuestAppends) {
  SharedNumberedBuffer line(SmallOptions{.rate_limiter = MinSize{10}});
  GuestSampler sampler = line.guest.sampler();
  const SampleResult none = sampler.sample(4, {.timeout = 20ms});
  EXPECT_FALSE(none);
  EXPECT_EQ(none.status().code, SampleStatus::Code::TimedOut);
  EXPECT_EQ(none.status().needed, 10U);
  EXPECT_GE(none.status().waited, 20ms);
  std::jthread actor([&] {
    Writer writer = line.guest.writer();
    std::this_thread::sleep_for(20ms);
    line.append_many(writer, 0, 11);
  });
  EXPECT_TRUE(sampler.sample(4));
}

TEST(GuestSampler, StopsWaitingOnAStopRequestACloseAndTheHostsEnd) {
  enum class Cause { StopRequest, Close, HostDestroyed };
  for (const Cause cause : {Cause::StopRequest, Cause::Close, Cause::HostDestroyed}) {
    NumberedBuffer line;
    auto hosted = std::make_unique<Hosted>(line.replay);
    hosted->serve();
    Guest guest = attach(hosted->address());
    GuestSampler sampler = guest.sampler();
    std::stop_source source;
    std::jthread later([&] {
      std::this_thread::sleep_for(20ms);
      if (cause == Cause::StopRequest) {
        source.request_stop();
      } else if (cause == Cause::Close) {
        line.replay.close();
      } else {
        hosted.reset();
      }
    });
    const SampleResult none = sampler.sample(4, {.stop = source.get_token()});
    EXPECT_FALSE(none);
    EXPECT_EQ(none.status().code, cause == Cause::StopRequest ? SampleStatus::Code::Stopped
                                                              : SampleStatus::Code::Closed);
    later.join();
    if (cause == Cause::StopRequest) {  // The connection must still work.
      line.append_many(0, 5);
      EXPECT_TRUE(sampler.sample(4));
    } else {
      const std::vector<ItemKey> keys(3);
      const std::vector<float> priorities(3, 1.0F);
      EXPECT_EQ(sampler.update_priorities(keys, priorities).stale, 3U);
    }
  }
}

TEST(GuestSampler, RefusesTheCallsThatTheHostRefusesWithTheSameWords) {
  SharedNumberedBuffer line;
  line.append_many(0, 30, 1.0F);
  expect_refusal([&] { (void)line.guest.sampler({}, 9); }, {"selector is 9"});
  GuestSampler sampler = line.guest.sampler();
  expect_refusal([&] { sampler.sample(0); }, {"0"});
  Sampler of_host = line.replay.sampler({.fresh = 0.5F});
  GuestSampler of_guest = line.guest.sampler({.fresh = 0.5F});
  for (const SampleOptions& wrong :
       {SampleOptions{.beta = 2.0F}, SampleOptions{.draws = Draws::Epoch}}) {
    const std::string refusal = refusal_of([&] { of_host.sample(4, wrong); });
    EXPECT_NE(refusal, "");
    EXPECT_EQ(refusal_of([&] { of_guest.sample(4, wrong); }), refusal);
    EXPECT_EQ(refusal_of([&] { of_guest.check(of_guest.make_batch(4), wrong); }), refusal);
  }
  EXPECT_EQ(refusal_of([&] { of_guest.check(of_guest.make_batch(4), {}); }), "");
  expect_refusal([&] { sampler.sample(4, {.timeout = -1ns}); }, {"timeout is -1"});
  const auto batch = require_batch(sampler.sample(4));
  const std::vector<ItemKey> keys(batch->keys().begin(), batch->keys().end());
  const std::vector<float> wrong = {1.0F, -2.0F, 1.0F, 1.0F};
  expect_refusal([&] { sampler.update_priorities(keys, wrong); }, {"-2"});
  EXPECT_THROW(sampler.update_priorities(keys, std::span(wrong).first(2)), std::invalid_argument);
}

TEST(GuestSampler, RefusesMoreUpdatesThanAMessageHolds) {
  SharedNumberedBuffer line;
  // The most keys in a message of 2^28 bytes, with 12 bytes for each, beside 24 bytes of the call.
  constexpr std::size_t kKeys = 22'369'619;
  const std::vector<ItemKey> keys(kKeys + 1);
  const std::vector<float> priorities(kKeys + 1);
  expect_refusal([&] { line.guest.update_priorities(keys, priorities); },
                 {"22369620 keys; allowed: up to 22369619"});
  EXPECT_FALSE(line.guest.closed());
}

TEST(GuestSampler, IsASourceForAPrefetcher) {
  SharedNumberedBuffer line;
  line.append_many(0, 64, 1.0F);
  GuestSampler sampler = line.guest.sampler();
  Prefetcher prefetcher(sampler, 16);
  std::jthread thread([&](const std::stop_token& stop) { prefetcher.run(stop); });
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(prefetcher.next());
  }
}

TEST(Guest, HasTheStatisticsSchemaAndWindowOfItsHost) {
  SharedNumberedBuffer line(SmallOptions{.window = Transitions{.n_step = 4}});
  line.append_many(0, 30);
  const Stats stats = line.guest.stats();
  EXPECT_EQ(stats.committed_steps, 30U);
  EXPECT_EQ(stats.guests, 1U);
  EXPECT_EQ(stats.limiter, line.replay.stats().limiter);
  EXPECT_EQ(line.guest.window(), Window(Transitions{.n_step = 4}));
  EXPECT_EQ(line.guest.schema().fields().size(), line.schema.fields().size());
  line.guest.close();
  EXPECT_TRUE(line.guest.closed());
  expect_refusal<std::runtime_error>([&] { (void)line.guest.writer(); }, {"closed"});
}

}  // namespace
}  // namespace reprise::test
