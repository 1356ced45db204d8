#include "testing/faults/counting_new.hpp"
#include "testing/faults/counting_resource.hpp"
#include "testing/fixtures/recurrent_line.hpp"
#include "testing/fixtures/removers.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// Counts the allocations of `repeats` calls, after `warm_ups` calls that are not counted.
template <class Call>
std::size_t allocations_of(Call&& call, int warm_ups = 50, int repeats = 500) {
  for (int i = 0; i < warm_ups; ++i) {
    call();
  }
  const std::size_t before = allocations();
  for (int i = 0; i < repeats; ++i) {
    call();
  }
  return allocations() - before;
}

/// A full buffer: each append evicts a step, and writers reuse chunks.
class SteadyState : public testing::TestWithParam<std::tuple<std::size_t, Window>> {
 protected:
  SteadyState() : line_(options()), writer_(line_.replay.writer()) { append(3000); }

  static Options options() {
    Options options = SmallOptions{.capacity_steps = 1000, .chunk_steps = 32};
    std::tie(options.shards, options.window) = GetParam();
    options.selectors = {Proportional{}};
    return options;
  }

  void append(std::uint64_t steps) {
    for (std::uint64_t i = 0; i < steps; ++i, ++number_) {
      line_.append(writer_, number_, number_ % 50 == 49 ? End::Terminated : End::Continue);
    }
  }

  NumberedBuffer line_;
  Writer writer_;
  std::uint64_t number_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    Shards, SteadyState,
    testing::Combine(testing::Values(1U, 4U),
                     testing::Values(Window(Transitions{.n_step = 3, .frame_stack = 2}),
                                     Window(Sequences{.length = 5, .period = 2}))));

TEST(CountingNew, Counts) {
  const std::size_t before = allocations();
  ::operator delete(::operator new(16));
  EXPECT_EQ(allocations(), before + 1);
}

TEST_P(SteadyState, AppendingAllocatesNothing) {
  EXPECT_EQ(allocations_of([&] { append(20); }), 0U);
}

TEST_P(SteadyState, AppendingSamplingAndUpdatingAllocateNothing) {
  Sampler sampler = line_.replay.sampler();
  std::vector<float> priorities(256, 0.5F);
  for (const Draws draws : {Draws::Stratified, Draws::Independent}) {
    EXPECT_EQ(allocations_of([&] {
                append(20);
                const SampleResult batch = sampler.sample(256, {.draws = draws});
                if (batch) {
                  line_.replay.update_priorities(batch->keys(), priorities);
                }
              }),
              0U);
  }
}

TEST_P(SteadyState, StaleKeysAndRepeatedKeysAllocateNothing) {
  Sampler sampler = line_.replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(256));
  const std::vector<ItemKey> keys(batch->keys().begin(), batch->keys().end());
  const std::vector<float> priorities(256, 0.5F);
  EXPECT_EQ(allocations_of([&] {
              append(10);
              line_.replay.update_priorities(keys, priorities);
            }),
            0U);
  EXPECT_GT(line_.replay.stats().stale_updates, 0U);
}

TEST_P(SteadyState, DecayAndAnotherAlphaAllocateNothing) {
  float alpha = 0.5F;
  EXPECT_EQ(allocations_of([&] {
              append(5);
              line_.replay.selector().decay(0.5F);
              alpha = 1.1F - alpha;
              line_.replay.selector().set_alpha(alpha);
            }),
            0U);
}

TEST_P(SteadyState, ReadingSizesAndTimingOutAllocateNothing) {
  Sampler sampler = line_.replay.sampler();
  EXPECT_EQ(allocations_of([&] { (void)line_.replay.size(); }), 0U);
  EXPECT_EQ(allocations_of([&] { (void)sampler.sample(16, kNoWait).status().code; }), 0U);
}

TEST_P(SteadyState, WaitingAllocatesNothingWithAStopTokenOrWithout) {
  std::stop_source source;
  Options held = options();
  held.rate_limiter = Queue{.size = 16};
  held.max_times_sampled = 1;
  NumberedBuffer line(held);
  Writer plain = line.replay.writer({.timeout = 0ns});
  Writer stoppable = line.replay.writer({.timeout = 0ns, .stop = source.get_token()});
  NumberedBuffer empty(options());
  Sampler sampler = empty.replay.sampler();
  const SampleOptions with_token{.timeout = 1us, .stop = source.get_token()};
  const SampleOptions without{.timeout = 1us};
  std::uint64_t number = 0;
  EXPECT_EQ(allocations_of([&] {
              line.append(plain, ++number);
              line.append(stoppable, number);
              (void)sampler.sample(16, with_token).status().code;
              (void)sampler.sample(16, without).status().code;
            }),
            0U);
  EXPECT_GT(line.replay.stats().writers_for_limiter.timeouts, 500U);
  EXPECT_GT(empty.replay.stats().samplers_for_items.timeouts, 500U);
}

TEST_P(SteadyState, SamplingIntoABatchOfTheUsersAllocatesNothing) {
  Sampler sampler = line_.replay.sampler();
  CountingResource memory;
  Batch batch = line_.replay.make_batch(64, &memory);
  const std::size_t before = memory.allocations();
  EXPECT_EQ(allocations_of([&] {
              append(5);
              (void)sampler.sample_into(batch, 0, 32);
              (void)sampler.sample_into(batch, 32, 32);
            }),
            0U);
  EXPECT_EQ(memory.allocations(), before);
}

TEST_P(SteadyState, SingleTransitionsAllocateNothing) {
  Writer writer = line_.replay.writer();
  std::uint64_t from = 0;
  EXPECT_EQ(allocations_of([&] {
              const std::uint64_t to = from + 1;
              (void)writer.add_transition(End::Continue, now(line_.id, from),
                                          now(line_.action, from), now(line_.reward, 1.0F),
                                          next(line_.id, to));
              from = from % 7 == 6 ? to + 100 : to;
            }),
            0U);
}

TEST_P(SteadyState, VectorWritersAllocateNothing) {
  VectorWriter writers(line_.replay, 3);
  const std::vector<std::uint64_t> ids = {1, 2, 3};
  const std::vector<float> rewards = {1.0F, 2.0F, 3.0F};
  const std::vector<End> ends = {End::Continue, End::Terminated, End::Truncated};
  writers.now(line_.id, ids);
  EXPECT_EQ(allocations_of([&] {
              writers.now(line_.action, ids);
              writers.now(line_.reward, rewards);
              writers.next(line_.id, ids);
              (void)writers.commit(ends);
              writers.now(line_.id, ids);
            }),
            0U);
}

TEST_P(SteadyState, APrefetcherAllocatesNothing) {
  Sampler source = line_.replay.sampler();
  Prefetcher prefetcher(source, 64);
  const std::jthread thread([&](std::stop_token stop) { prefetcher.run(stop); });
  EXPECT_EQ(allocations_of([&] {
              append(5);
              (void)prefetcher.next();
            }),
            0U);
}

TEST_P(SteadyState, BatchesNoLargerThanAnEarlierOneAllocateNothing) {
  Sampler sampler = line_.replay.sampler();
  ASSERT_TRUE(sampler.sample(512));
  std::size_t n = 0;
  EXPECT_EQ(allocations_of([&] {
              n = n % 512 + 1;
              (void)sampler.sample(n);
            }),
            0U);
}

class SteadyRemovers : public testing::TestWithParam<NamedRemover> {};

INSTANTIATE_TEST_SUITE_P(Removers, SteadyRemovers, testing::ValuesIn(all_removers()), name_of);

TEST_P(SteadyRemovers, AllocateNothing) {
  NumberedBuffer line(
      SmallOptions{.capacity_steps = 1000, .remover = GetParam().remover, .shards = 2});
  Sampler sampler = line.replay.sampler();
  const std::vector<float> priorities(64, 0.5F);
  line.append_many(0, 2000);
  std::uint64_t number = 2000;
  EXPECT_EQ(allocations_of([&] {
              line.append_many(number, 20);
              number += 20;
              if (const SampleResult batch = sampler.sample(64)) {
                line.replay.update_priorities(batch->keys(), priorities);
              }
            }),
            0U);
  EXPECT_GT(line.replay.stats().evicted_steps, 10'000U);
}

TEST(SteadyStateOfSelectors, AppendsDrawsAndUpdatesAllocateNothing) {
  const std::vector<Selector> selectors{RankBased{}, Fifo{}, Lifo{}, MaxHeap{}, MinHeap{}};
  for (std::size_t s = 0; s < selectors.size(); ++s) {
    for (const Draws draws : {Draws::Stratified, Draws::WithoutReplacement}) {
      SCOPED_TRACE(testing::Message() << "selector " << s << ", draws " << static_cast<int>(draws));
      NumberedBuffer line(SmallOptions{.capacity_steps = 2000,
                                       .selectors = {selectors[s]},
                                       .episode_index = true,
                                       .chunk_steps = 32,
                                       .shards = 2});
      Sampler sampler = line.replay.sampler({.seed = 1});
      std::vector<float> priorities(128);
      std::uint64_t number = 0;
      float scale = 1.0F;
      const auto cycle = [&] {
        for (int i = 0; i < 16; ++i, ++number) {
          line.append(number, number % 50 == 49 ? End::Terminated : End::Continue);
        }
        const SampleResult batch =
            sampler.sample(number < 128 ? 1 : priorities.size(), {.draws = draws});
        for (std::size_t i = 0; i < batch->size(); ++i) {
          priorities[i] = scale * static_cast<float>((number * 131 + i * 7919) % 1000);
        }
        scale *= 0.98F;  // All priorities change, so that `RankBased` divides its ranges again.
        line.replay.update_priorities(batch->keys(), std::span(priorities).first(batch->size()));
        line.replay.episodes().update_priorities(line.writer().episode_id(), 0,
                                                 std::span(priorities).first(20));
      };
      EXPECT_EQ(allocations_of(cycle, 300, 300), 0U);
    }
  }
}

TEST(SteadyStateOfPassesAndFreshItems, AllocatesNothing) {
  for (const float fresh : {0.0F, 0.25F}) {
    NumberedBuffer line(SmallOptions{.capacity_steps = 1000, .shards = 2});
    Sampler sampler = line.replay.sampler({.fresh = fresh});
    std::uint64_t number = 0;
    const auto cycle = [&] {
      line.append_many(number, 20);
      number += 20;
      ASSERT_TRUE(sampler.sample(64, {.draws = fresh > 0.0F ? Draws::Independent : Draws::Epoch}));
    };
    EXPECT_EQ(allocations_of(cycle, 300, 300), 0U);
  }
}

TEST(SteadyStateOfRecurrentStates, AllocatesNothing) {
  for (const SequenceEnd end :
       {SequenceEnd::ZeroPad, SequenceEnd::Overlap, SequenceEnd::Continue}) {
    RecurrentNumberedBuffer line(
        SmallOptions{.capacity_steps = 1000,
                     .window = Sequences{.length = 5, .period = 2, .burn_in = 2, .end = end},
                     .chunk_steps = 32,
                     .shards = 2});
    Writer writer = line.replay.writer();
    Sampler sampler = line.replay.sampler();
    std::uint64_t number = 0;
    const auto cycle = [&] {
      for (int i = 0; i < 20; ++i, ++number) {
        line.append(writer, number, number % 50 == 49 ? End::Terminated : End::Continue);
      }
      ASSERT_TRUE(sampler.sample(64));
    };
    EXPECT_EQ(allocations_of(cycle, 200, 200), 0U);
  }
}

TEST(SteadyStateOfMutableColumns, AllocatesNothing) {
  Schema schema;
  const auto id = schema.observation<std::uint64_t>("id");
  const auto latent = schema.mutable_column<float>("latent", {6});
  ReplayBuffer replay(schema, SmallOptions{.window = Sequences{.length = 4, .period = 2},
                                           .selectors = {Uniform{}}});
  Writer writer = replay.writer();
  Sampler sampler = replay.sampler();
  const std::vector<float> values(std::size_t{8} * 4 * 6, 1.0F);
  writer.begin_episode();
  writer.now(id) = 0;
  std::uint64_t number = 0;
  const auto cycle = [&] {
    for (int i = 0; i < 20; ++i) {
      std::ranges::fill(writer.now(latent), 0.0F);
      writer.next(id) = ++number;
      ASSERT_EQ(writer.commit(), CommitStatus::Committed);
    }
    const SampleResult batch = sampler.sample(8);
    ASSERT_EQ(replay.update(batch->keys(), latent, values).applied, 8U);
  };
  EXPECT_EQ(allocations_of(cycle, 200, 200), 0U);
}

}  // namespace
}  // namespace reprise::test
