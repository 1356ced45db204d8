#include "buffer/buffer_core.hpp"
#include "testing/faults/hooked_fifo.hpp"
#include "testing/faults/lock_holder.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/fixtures/forwarding_source.hpp"
#include "testing/program/sanitizer.hpp"
#include "testing/test.hpp"

#include <csignal>

namespace reprise::test {
namespace {

std::jthread run(Prefetcher& prefetcher) {
  return std::jthread([&](std::stop_token stop) { prefetcher.run(stop); });
}

class PrefetcherOfDepth : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Depths, PrefetcherOfDepth, testing::Values(1U, 2U, 5U));

TEST_P(PrefetcherOfDepth, GivesTheBatchesOfASamplerInTheirOrder) {
  NumberedBuffer line;
  line.append_many(0, 40, [&](std::uint64_t i) { return static_cast<float>(i + 1); });
  (void)line.replay.size();  // Ingests all steps, so that both samplers draw from the same items.
  Sampler sampler = line.replay.sampler({.seed = 8});
  Sampler ahead = line.replay.sampler({.seed = 8});
  Prefetcher prefetcher(ahead, 16, {.beta = 0.7F}, GetParam());
  const std::jthread thread = run(prefetcher);
  for (int i = 0; i < 200; ++i) {
    const SampleResult expected = sampler.sample(16, {.beta = 0.7F});
    const SampleResult actual = prefetcher.next();
    ASSERT_TRUE(expected && actual) << i;
    ASSERT_EQ(actual->size(), 16U);
    ASSERT_TRUE(std::ranges::equal(actual->keys(), expected->keys())) << i;
    ASSERT_TRUE(std::ranges::equal(actual->now(line.id), expected->now(line.id)));
    ASSERT_TRUE(std::ranges::equal(actual->weights(), expected->weights()));
  }
}

TEST_P(PrefetcherOfDepth, DrawsAheadNoMoreThanItsDepth) {
  NumberedBuffer line;
  line.append_many(0, 40);
  Sampler sampler = line.replay.sampler();
  Prefetcher prefetcher(sampler, 4, {}, GetParam());
  const std::jthread thread = run(prefetcher);
  for (std::size_t taken = 1; taken <= 50; ++taken) {
    ASSERT_TRUE(prefetcher.next());
    // One more batch may be in preparation, and the learner has one.
    EXPECT_LE(line.replay.stats().sampled_batches, taken + GetParam() + 1);
  }
}

TEST_P(PrefetcherOfDepth, ABatchStaysAsItIsUntilTheNextCall) {
  NumberedBuffer line;
  line.append_many(0, 40);
  Sampler sampler = line.replay.sampler();
  Prefetcher prefetcher(sampler, 4, {}, GetParam());
  const std::jthread thread = run(prefetcher);
  for (int i = 0; i < 50; ++i) {
    const SampleResult batch = prefetcher.next();
    ASSERT_TRUE(batch);
    const std::vector<std::uint64_t> ids(batch->now(line.id).begin(), batch->now(line.id).end());
    std::this_thread::sleep_for(200us);
    EXPECT_TRUE(std::ranges::equal(batch->now(line.id), ids));
  }
}

TEST(Prefetcher, TimesOutWhileNothingIsThere) {
  NumberedBuffer line;
  Sampler sampler = line.replay.sampler();
  Prefetcher prefetcher(sampler, 4);
  const SampleResult none = prefetcher.next(5ms);
  EXPECT_FALSE(none);
  EXPECT_EQ(none.status().code, SampleStatus::Code::TimedOut);
  EXPECT_FALSE(none.status().message().empty());
  EXPECT_FALSE(prefetcher.next(0ns));
}

TEST(Prefetcher, StopsWhenAskedHoweverItWaits) {
  NumberedBuffer line;
  Sampler sampler = line.replay.sampler();
  Prefetcher waits_for_items(sampler, 4);
  std::jthread thread = run(waits_for_items);
  yield_while([&] { return line.replay.stats().samplers_for_items.waiting_now == 0; });
  thread.request_stop();
  thread.join();
  EXPECT_FALSE(waits_for_items.next()) << "run has ended, so there is nothing to wait for";

  line.append_many(0, 4);
  Prefetcher waits_for_the_learner(sampler, 4, {}, 2);
  thread = run(waits_for_the_learner);
  yield_while([&] { return line.replay.stats().sampled_batches < 2; });
  thread.request_stop();
  thread.join();
  EXPECT_TRUE(waits_for_the_learner.next());
  EXPECT_TRUE(waits_for_the_learner.next()) << "what was drawn is given out";
  while (waits_for_the_learner.next()) {
  }
}

TEST(Prefetcher, LosesNoBatchWhenRunIsStoppedBeforeItIsFilled) {
  NumberedBuffer line;
  Sampler sampler = line.replay.sampler();
  Prefetcher prefetcher(sampler, 4, {}, 1);
  {
    const std::jthread thread = run(prefetcher);
    yield_while([&] { return line.replay.stats().samplers_for_items.waiting_now == 0; });
  }
  line.append_many(0, 4);
  const std::jthread thread = run(prefetcher);
  yield_while([&] { return line.replay.stats().sampled_batches == 0; });
  const SampleResult one = prefetcher.next();
  const SampleResult other = prefetcher.next();
  ASSERT_TRUE(one && other);
  EXPECT_NE(&*one, &*other) << "there are depth + 1";
}

TEST(Prefetcher, IsWokenByCloseWhoeverSleepsForTheOther) {
  for (std::size_t round = 0; round < scaled(100, 20); ++round) {
    NumberedBuffer line;
    line.append_many(0, 4);
    Sampler of_the_one = line.replay.sampler();
    Prefetcher never_run(of_the_one, 4);
    std::jthread learner(
        [&] { EXPECT_EQ(never_run.next().status().code, SampleStatus::Code::Closed); });
    constexpr std::size_t kDepth = 1;
    Sampler of_the_other = line.replay.sampler();
    Prefetcher full(of_the_other, 4, {}, kDepth);
    std::jthread thread = run(full);
    yield_while([&] { return line.replay.stats().sampled_batches < kDepth + 1; });
    // There are few rounds, because each waits for all other threads, and the machine may be busy.
    for (std::size_t i = 0; i < round % 8; ++i) {
      std::this_thread::yield();
    }
    line.replay.close();
    thread.join();  // No stop is requested; the closed buffer has to end the thread.
  }
}

TEST(Prefetcher, AsksAHookWhetherNextIsToWait) {
  class LimitedLooksHook final : public WaitHook {
   public:
    explicit LimitedLooksHook(int times) : left(times) {}
    bool keep_waiting(std::chrono::nanoseconds /*waited*/) noexcept override { return left-- > 0; }
    int left;
  };
  NumberedBuffer line;
  Sampler sampler = line.replay.sampler();
  Prefetcher prefetcher(sampler, 4);
  const std::jthread thread = run(prefetcher);
  for (const int times : {0, 2}) {
    LimitedLooksHook patience(times);
    const SampleResult none = prefetcher.next(kNoTimeout, &patience);
    EXPECT_FALSE(none);
    EXPECT_EQ(none.status().code, SampleStatus::Code::Stopped);
    EXPECT_EQ(patience.left, -1);
  }
  line.append_many(0, 4);
  LimitedLooksHook patience(1000);
  EXPECT_TRUE(prefetcher.next(kNoTimeout, &patience));
}

TEST(Prefetcher, OfAClosedBufferGivesOutWhatWasDrawn) {
  NumberedBuffer line;
  line.append_many(0, 4);
  Sampler sampler = line.replay.sampler();
  Prefetcher prefetcher(sampler, 4, {}, 2);
  std::jthread thread = run(prefetcher);
  yield_while([&] { return line.replay.stats().sampled_batches < 3; });
  line.replay.close();
  thread.join();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(prefetcher.next()) << i;
  }
  EXPECT_EQ(prefetcher.next().status().code, SampleStatus::Code::Closed);
}

TEST(Prefetcher, GivesOutABatchThatWasBeingDrawnWhenTheBufferWasClosed) {
  NumberedBuffer line;
  line.append_many(0, 4);
  ASSERT_EQ(line.replay.size(), 4U);
  Sampler sampler = line.replay.sampler();
  Prefetcher prefetcher(sampler, 4);
  shard::Shard& shard = core_of(line.replay)->shards()[0];
  LockHolder holder(shard.mutex);
  std::jthread thread = run(prefetcher);
  yield_while([&] { return shard.samplers_waiting.load() == 0; });
  line.replay.close();
  holder.release();
  thread.join();
  EXPECT_TRUE(prefetcher.next());
  EXPECT_EQ(prefetcher.next().status().code, SampleStatus::Code::Closed);
}

/// What the handler of SIGUSR1 calls. It may do more than other signal handlers, because the
/// interrupted `next` neither allocates nor locks.
std::function<void()>& on_signal() {
  static std::function<void()> call;
  return call;
}

TEST(Prefetcher, GivesOutTheLastBatchWhereverInNextRunEnds) {
  if (kThreadSanitizer) {
    GTEST_SKIP() << "a first draw allocates, which it reports of a signal's handler";
  }
  constexpr std::uint64_t kSeed = 6;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Rng rng(kSeed);
  std::stop_source stop;
  Options options = SmallOptions{};
  // The selector stops the thread after one batch.
  options.selectors = {HookedFifo{[&] { stop.request_stop(); }}};
  NumberedBuffer line(options);
  line.append(0);

  std::signal(SIGUSR1, [](int) { on_signal()(); });
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGUSR1;
  timer_t timer{};
  ASSERT_EQ(::timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  std::size_t early_ends = 0;
  const std::size_t rounds = scaled(10'000, 1000);
  for (std::size_t round = 0; round < rounds; ++round) {
    Sampler sampler = line.replay.sampler();
    Prefetcher prefetcher(sampler, 1);
    stop = std::stop_source();
    on_signal() = [&] { prefetcher.run(stop.get_token()); };
    itimerspec soon{};  // The timer fires when `next` has already been called several times.
    soon.it_value.tv_nsec = static_cast<long>(rng.between(10'000, 60'000));
    ASSERT_EQ(::timer_settime(timer, 0, &soon, nullptr), 0);
    for (bool found = false; !found;) {
      const SampleResult batch = prefetcher.next(0ns);
      found = static_cast<bool>(batch);
      early_ends += batch.status().code == SampleStatus::Code::Closed ? 1U : 0U;
    }
  }
  ::timer_delete(timer);
  std::signal(SIGUSR1, SIG_DFL);
  EXPECT_EQ(early_ends, 0U) << "the end was told before the last batch was given out";
}

/// A prefetcher of a mixture of two buffers, in exact parts or by the common total.
class PrefetcherOfAMix : public testing::TestWithParam<bool> {
 public:
  static Options tagged(std::uint16_t tag) { return SmallOptions{.key_tag = tag}; }
  std::unique_ptr<MixedSampler> mixed() {
    const SamplerOptions seed{.seed = 8};
    return GetParam() ? std::make_unique<MixedSampler>(
                            std::vector<MixedPart>{{one.replay, 5}, {other.replay, 3}}, seed)
                      : std::make_unique<MixedSampler>(
                            std::vector<SelectorHandle>{one.replay, other.replay}, 8, seed);
  }

  NumberedBuffer one{tagged(1)};
  NumberedBuffer other{tagged(2)};
};
INSTANTIATE_TEST_SUITE_P(Parts, PrefetcherOfAMix, testing::Bool());

TEST_P(PrefetcherOfAMix, GivesItsBatchesInTheirOrder) {
  for (NumberedBuffer* line : {&one, &other}) {
    Writer writer = line->replay.writer();
    line->append_many(writer, 0, 40, [](std::uint64_t i) { return static_cast<float>(i + 1); });
    // Ingests all steps, so that both mixed samplers draw from the same items.
    (void)line->replay.size();
  }
  const auto mix = mixed();
  const auto same = mixed();
  Prefetcher prefetcher(*mix, 8, {.beta = 0.7F}, 3);
  const std::jthread thread = run(prefetcher);
  for (int i = 0; i < 100; ++i) {
    const SampleResult expected = same->sample({.beta = 0.7F});
    const SampleResult actual = prefetcher.next();
    ASSERT_TRUE(expected && actual) << i;
    ASSERT_TRUE(std::ranges::equal(actual->keys(), expected->keys())) << i;
    ASSERT_TRUE(std::ranges::equal(actual->weights(), expected->weights()));
  }
  EXPECT_THROW(Prefetcher(*same, 7), std::invalid_argument) << "it has 8 items";
}

TEST_P(PrefetcherOfAMix, SaysWhichPartLacksItems) {
  const auto mix = mixed();
  Prefetcher prefetcher(*mix, 8);
  const SampleStatus none = prefetcher.next(0ns).status();
  EXPECT_EQ(none.code, SampleStatus::Code::TimedOut);
  EXPECT_EQ(none.items, 0U);
  EXPECT_EQ(none.needed, 1U) << none.message();
  Writer writer = one.replay.writer();
  one.append_many(writer, 0, 10);
  (void)one.replay.size();
  EXPECT_EQ(prefetcher.next(0ns).status().items, 0U) << "those of the other part";
}

TEST_P(PrefetcherOfAMix, EndsWhenABufferIsClosedThatTheDrawDoesNotWaitFor) {
  Writer writer = other.replay.writer();
  other.append_many(writer, 0, 10);
  (void)other.replay.size();
  const auto mix = mixed();
  Prefetcher prefetcher(*mix, 8);
  const std::jthread thread = run(prefetcher);
  if (GetParam()) {
    yield_while([&] { return one.replay.stats().samplers_for_items.waiting_now == 0; });
  }
  other.replay.close();
  while (prefetcher.next()) {
  }
}

/// By the common total a buffer without items is not drawn from, so it may be closed.
TEST(PrefetcherByTheCommonTotal, GoesOnBesideAnEmptyBufferThatIsClosed) {
  NumberedBuffer one(PrefetcherOfAMix::tagged(1));
  NumberedBuffer other(PrefetcherOfAMix::tagged(2));
  one.append_many(0, 10);
  other.replay.close();
  MixedSampler mix({one.replay, other.replay}, 8);
  Prefetcher prefetcher(mix, 8);
  const std::jthread thread = run(prefetcher);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(prefetcher.next()) << i;
  }
}

/// A batch source whose every second batch fails.
class AlternatingSource final : public ForwardingSource {
 public:
  using ForwardingSource::ForwardingSource;
  SampleStatus sample_into(Batch& batch, const SampleOptions& options) override {
    SampleStatus none = outlook(batch.capacity());
    none.code = SampleStatus::Code::NothingToDraw;
    return ++calls_ % 2 == 0 ? none : source_.sample_into(batch, options);
  }

 private:
  int calls_ = 0;
};

TEST(Prefetcher, DrawsFromASourceOfTheUsersOwn) {
  NumberedBuffer line;
  line.append_many(0, 40);
  Sampler sampler = line.replay.sampler({.seed = 8});
  Sampler same = line.replay.sampler({.seed = 8});
  AlternatingSource halting(sampler);
  Prefetcher prefetcher(halting, 4);
  const std::jthread thread = run(prefetcher);
  for (int i = 0; i < 20; ++i) {
    const SampleResult expected = same.sample(4);
    const SampleResult actual = prefetcher.next();
    ASSERT_TRUE(expected && actual) << i;
    ASSERT_TRUE(std::ranges::equal(actual->keys(), expected->keys())) << i;
  }
}

TEST(Prefetcher, RefusesBadArguments) {
  NumberedBuffer line;
  Sampler sampler = line.replay.sampler();
  const auto refused = [&](std::size_t n, const SampleOptions& sample, std::size_t depth,
                           std::initializer_list<std::string_view> words) {
    expect_refusal([&] { const Prefetcher prefetcher(sampler, n, sample, depth); }, words);
  };
  refused(0, {}, 2, {"0"});
  refused(4, {}, 0, {"depth", "0"});
  refused(4, {.beta = 2.0F}, 2, {"beta", "2"});
  refused(4, {.timeout = -1ns}, 2, {"timeout", "-1"});
}

}  // namespace
}  // namespace reprise::test
