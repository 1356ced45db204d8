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
  Sampler same_seed = line.replay.sampler({.seed = 8});
  Prefetcher prefetcher(same_seed, 16, {.beta = 0.7F}, GetParam());
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

TEST_P(PrefetcherOfDepth, DrawsAtMostItsDepthAhead) {
  NumberedBuffer line;
  line.append_many(0, 40);
  Sampler sampler = line.replay.sampler();
  Prefetcher prefetcher(sampler, 4, {}, GetParam());
  const std::jthread thread = run(prefetcher);
  for (std::size_t taken = 1; taken <= 50; ++taken) {
    ASSERT_TRUE(prefetcher.next());
    // Beside the batches drawn ahead, the thread may have begun another one.
    EXPECT_LE(line.replay.stats().sampled_batches, taken + GetParam() + 1);
  }
}

TEST_P(PrefetcherOfDepth, ABatchDoesNotChangeUntilTheNextCall) {
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

TEST(Prefetcher, TimesOutWhileThereAreNoItems) {
  NumberedBuffer line;
  Sampler sampler = line.replay.sampler();
  Prefetcher prefetcher(sampler, 4);
  const SampleResult none = prefetcher.next(5ms);
  EXPECT_FALSE(none);
  EXPECT_EQ(none.status().code, SampleStatus::Code::TimedOut);
  EXPECT_FALSE(none.status().message().empty());
  EXPECT_FALSE(prefetcher.next(0ns));
}

TEST(Prefetcher, StopsWhileItWaitsForItemsOrForTheLearner) {
  NumberedBuffer line;
  Sampler sampler = line.replay.sampler();
  Prefetcher waits_for_items(sampler, 4);
  std::jthread thread = run(waits_for_items);
  yield_while([&] { return line.replay.stats().samplers_for_items.waiting_now == 0; });
  thread.request_stop();
  thread.join();
  EXPECT_FALSE(waits_for_items.next()) << "no batch will come after the end of `run`";

  line.append_many(0, 4);
  Prefetcher waits_for_the_learner(sampler, 4, {}, 2);
  thread = run(waits_for_the_learner);
  yield_while([&] { return line.replay.stats().sampled_batches < 2; });
  thread.request_stop();
  thread.join();
  EXPECT_TRUE(waits_for_the_learner.next());
  EXPECT_TRUE(waits_for_the_learner.next()) << "batches that were drawn are given out";
  while (waits_for_the_learner.next()) {
  }
}

TEST(Prefetcher, LosesNoBatchMemoryWhenRunIsStoppedBeforeADraw) {
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
  const SampleResult first = prefetcher.next();
  const SampleResult second = prefetcher.next();
  ASSERT_TRUE(first && second);
  EXPECT_NE(&*first, &*second) << "a prefetcher has depth + 1 batches";
}

TEST(Prefetcher, ACloseWakesALearnerAndAThreadThatWaitForEachOther) {
  for (std::size_t round = 0; round < scaled(100, 20); ++round) {
    NumberedBuffer line;
    line.append_many(0, 4);
    Sampler sampler_of_never_run = line.replay.sampler();
    Prefetcher never_run(sampler_of_never_run, 4);
    std::jthread learner(
        [&] { EXPECT_EQ(never_run.next().status().code, SampleStatus::Code::Closed); });
    constexpr std::size_t kDepth = 1;
    Sampler sampler_of_full = line.replay.sampler();
    Prefetcher full(sampler_of_full, 4, {}, kDepth);
    std::jthread thread = run(full);
    yield_while([&] { return line.replay.stats().sampled_batches < kDepth + 1; });
    // At most 7 yields, because on a busy machine each may take long.
    for (std::size_t i = 0; i < round % 8; ++i) {
      std::this_thread::yield();
    }
    line.replay.close();
    thread.join();  // No stop was requested, so the close must end the thread.
  }
}

TEST(Prefetcher, AsksTheHookOfNextWhetherToGoOnWaiting) {
  class CountdownHook final : public WaitHook {
   public:
    explicit CountdownHook(int times) : left(times) {}
    bool keep_waiting(std::chrono::nanoseconds /*waited*/) noexcept override { return left-- > 0; }
    int left;
  };
  NumberedBuffer line;
  Sampler sampler = line.replay.sampler();
  Prefetcher prefetcher(sampler, 4);
  const std::jthread thread = run(prefetcher);
  for (const int times : {0, 2}) {
    CountdownHook hook(times);
    const SampleResult none = prefetcher.next(kNoTimeout, &hook);
    EXPECT_FALSE(none);
    EXPECT_EQ(none.status().code, SampleStatus::Code::Stopped);
    EXPECT_EQ(hook.left, -1);
  }
  line.append_many(0, 4);
  CountdownHook hook(1000);
  EXPECT_TRUE(prefetcher.next(kNoTimeout, &hook));
}

TEST(Prefetcher, GivesOutTheDrawnBatchesOfAClosedBuffer) {
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

/// The function that the handler of SIGUSR1 calls. The function may allocate and lock, unlike those
/// of other signal handlers, because the interrupted `next` does neither.
std::function<void()>& on_signal() {
  static std::function<void()> call;
  return call;
}

TEST(Prefetcher, GivesOutTheLastBatchIfRunEndsAtAnyMomentOfNext) {
  if (kThreadSanitizer) {
    GTEST_SKIP() << "ThreadSanitizer reports that a signal handler allocates";
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
    itimerspec soon{};  // The timer fires when `next` was called several times.
    soon.it_value.tv_nsec = static_cast<long>(rng.between(10'000, 60'000));
    ASSERT_EQ(::timer_settime(timer, 0, &soon, nullptr), 0);
    for (bool got_batch = false; !got_batch;) {
      const SampleResult batch = prefetcher.next(0ns);
      got_batch = static_cast<bool>(batch);
      early_ends += batch.status().code == SampleStatus::Code::Closed ? 1U : 0U;
    }
  }
  ::timer_delete(timer);
  std::signal(SIGUSR1, SIG_DFL);
  EXPECT_EQ(early_ends, 0U) << "`next` reported the end before the last batch";
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
  const auto same_seed = mixed();
  Prefetcher prefetcher(*mix, 8, {.beta = 0.7F}, 3);
  const std::jthread thread = run(prefetcher);
  for (int i = 0; i < 100; ++i) {
    const SampleResult expected = same_seed->sample({.beta = 0.7F});
    const SampleResult actual = prefetcher.next();
    ASSERT_TRUE(expected && actual) << i;
    ASSERT_TRUE(std::ranges::equal(actual->keys(), expected->keys())) << i;
    ASSERT_TRUE(std::ranges::equal(actual->weights(), expected->weights()));
  }
  EXPECT_THROW(Prefetcher(*same_seed, 7), std::invalid_argument) << "the mix has 8 items";
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
  EXPECT_EQ(prefetcher.next(0ns).status().items, 0U) << "the second part has no items";
}

TEST_P(PrefetcherOfAMix, EndsAlsoIfTheClosedBufferIsNotTheOneThatItWaitsFor) {
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

/// By the common total, no item is drawn from a buffer without items, so that buffer may be closed.
TEST(PrefetcherByTheCommonTotal, GoesOnIfAnEmptyBufferIsClosed) {
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

/// A batch source that has nothing to draw at every second call.
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
  Sampler same_seed = line.replay.sampler({.seed = 8});
  AlternatingSource source(sampler);
  Prefetcher prefetcher(source, 4);
  const std::jthread thread = run(prefetcher);
  for (int i = 0; i < 20; ++i) {
    const SampleResult expected = same_seed.sample(4);
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
