#include <reprise/remote.hpp>

#include "testing/faults/allocation_sweep.hpp"
#include "testing/test.hpp"

/// These tests make the k-th allocation of a call fail, for every k. Some calls throw anyway.
namespace reprise::test {
namespace {

/// A buffer in use. No call that fails may change its contents.
class AllocationFailureInUse : public testing::Test {
 protected:
  AllocationFailureInUse()
      : line_(options()), writer_(line_.replay.writer()), sampler_(line_.replay.sampler()) {
    line_.append_many(writer_, 0, 50);
    keys_ = line_.keys();
    probabilities_ = line_.probabilities();
  }

  static Options options() { return SmallOptions{.max_writers = 3}; }

  void expect_unchanged() {
    EXPECT_EQ(line_.replay.stats().committed_steps, 50U);
    EXPECT_EQ(line_.replay.stats().writers, 1U);
    EXPECT_EQ(line_.replay.size(), 50U);
    EXPECT_EQ(line_.replay.stats().retired_pinned, 0U);
    EXPECT_EQ(writer_.episode_steps(), 50U);
    EXPECT_EQ(line_.keys(), keys_);
    EXPECT_EQ(line_.probabilities(), probabilities_);
  }

  template <class Call>
  void expect_unchanged_despite_failures(Call&& call) {
    fail_each_allocation(call, [this] { expect_unchanged(); });
  }

  NumberedBuffer line_;
  Writer writer_;
  Sampler sampler_;
  std::map<std::uint64_t, ItemKey> keys_;
  std::map<std::uint64_t, double> probabilities_;
};

TEST(AllocationFailure, WhileAddingAnyKindOfFieldLeavesTheSchemaAsItWas) {
  const std::function<void(Schema&)> additions[] = {
      [](Schema& s) { s.observation<float>("a scalar observation with a long name"); },
      [](Schema& s) { s.column<float>("a scalar column with a long enough name"); },
      [](Schema& s) {
        s.column<double>("a shaped column with a long enough name", {3, 4});
      },
      [](Schema& s) { s.reward("a reward with a name that is long enough"); },
      [](Schema& s) { s.discount("a discount with a name that is long enough"); }};
  for (const auto& add : additions) {
    Schema schema;
    schema.observation<float>("state");
    const Schema before = schema;
    fail_each_allocation([&] { add(schema); }, [&] { ASSERT_TRUE(schema == before); });
    ASSERT_EQ(schema.fields().size(), 2U);
  }
}

TEST_F(AllocationFailureInUse, WhileAskingForSizeOrStats) {
  std::size_t size = 0;
  expect_unchanged_despite_failures([&] { size = line_.replay.size(); });
  EXPECT_EQ(size, 50U);
  std::optional<Stats> stats;
  expect_unchanged_despite_failures([&] { stats.emplace(line_.replay.stats()); });
  ASSERT_TRUE(stats.has_value());
  EXPECT_EQ(stats->resident_steps, 50U);
}

TEST_F(AllocationFailureInUse, WhileSamplingIntoABatchOfTheUsers) {
  Batch batch = line_.replay.make_batch(3000);
  for (const bool gather : {false, true}) {
    Sampler fresh = line_.replay.sampler({.seed = 9});
    SampleStatus status{.code = SampleStatus::Code::Closed};
    expect_unchanged_despite_failures(
        [&] { status = fresh.sample_into(batch, 500, 2500, {.timeout = 0ns, .gather = gather}); });
    EXPECT_EQ(status.code, SampleStatus::Code::Ok);
    EXPECT_EQ(batch.size(), 3000U);
  }
}

TEST_F(AllocationFailureInUse, WhileGatheringInParallel) {
  constexpr std::size_t kBatch = 2000;
  constexpr std::size_t kMaxAllocations = 1000;
  Sampler sampler = line_.replay.sampler({.seed = 9, .parallel_gather_bytes = 1});
  ASSERT_TRUE(sampler.sample(kBatch, kNoWait));  // The sampler allocates the memory that it keeps.
  bool failed = true;
  for (std::size_t k = 1; failed && k < kMaxAllocations; ++k) {
    SCOPED_TRACE(testing::Message() << "allocation " << k << " fails");
    fail_allocation(k);
    const SampleResult batch = sampler.sample(kBatch, kNoWait);
    failed = allocation_failed();
    fail_allocation(0);
    ASSERT_TRUE(batch);
    for (std::size_t i = 0; i < kBatch; ++i) {
      ASSERT_EQ(batch->keys()[i], keys_.at(batch->now(line_.id)[i]));
    }
  }
  EXPECT_FALSE(failed);
}

TEST_F(AllocationFailureInUse, WhileDescribingABatchOrAStatus) {
  const SampleResult batch = require_batch(sampler_.sample(16, kNoWait));
  std::vector<std::size_t> shape;
  expect_unchanged_despite_failures([&] { shape = batch->shape(line_.id); });
  std::string words;
  expect_unchanged_despite_failures([&] { words = batch.status().message(); });
  EXPECT_NE(words, "");
  for (const bool ratio : {false, true}) {
    SampleStatus held{.code = SampleStatus::Code::Stopped};
    held.held_by_ratio = ratio;
    held.held_by_queue = !ratio;
    words.clear();
    expect_unchanged_despite_failures([&] { words = held.message(); });
    EXPECT_NE(words, "");
  }
}

TEST_F(AllocationFailureInUse, WhileRefusingInvalidArguments) {
  Batch batch = line_.replay.make_batch(4);
  Schema other;
  const auto foreign = other.observation<std::uint64_t>("another field of another schema", {2});
  const std::array<float, 1> nan = {std::numeric_limits<float>::quiet_NaN()};
  const std::array<ItemKey, 1> key = {keys_.begin()->second};
  const std::array<ItemKey, 1> foreign_key = {
      ItemKey::make(key[0].slot(), key[0].generation(), key[0].tag() + 1)};
  const std::array<float, 1> one = {1.0F};
  const std::array<float, 2> two = {1.0F, 1.0F};
  const std::function<void()> invalid_calls[] = {
      [&] { (void)writer_.commit(); },
      [&] { (void)writer_.now(foreign); },
      [&] { (void)writer_.add_transition(End::Continue, next(line_.id, 2)); },
      [&] { (void)line_.replay.writer({.timeout = -1ns}); },
      [&] { (void)line_.replay.selector(7).sampler(); },
      [&] { (void)line_.replay.make_batch(0); },
      [&] { (void)sampler_.sample(0); },
      [&] { (void)sampler_.sample(4, {.beta = 7.0F}); },
      [&] { (void)sampler_.sample(4, {.timeout = -1ns}); },
      [&] { (void)sampler_.sample_into(batch, 3, 2); },
      [&] { (void)batch.now(foreign); },
      [&] { (void)batch.shape(foreign); },
      [&] { (void)line_.replay.update_priorities(key, nan); },
      [&] { (void)line_.replay.update_priorities(key, two); },
      [&] { (void)line_.replay.update_priorities(foreign_key, one); },
      [&] { (void)line_.replay.selector(9).update(key, one); },
      [&] { const VectorWriter writers(line_.replay, 0); },
      // One more writer than the buffer allows.
      [&] { const VectorWriter writers(line_.replay, 3); },
      [&] { const Prefetcher prefetcher(sampler_, 4, {}, 0); },
      [&] { other.observation<float>("another field of another schema"); },
      [&] { const ReplayBuffer none(Schema(), {.capacity_steps = 1}); },
      [&] { const ReplayBuffer none(other, {.capacity_steps = 0}); },
      [&] {
        const ReplayBuffer none(
            other, {.capacity_steps = 1, .max_times_sampled = 1, .rate_limiter = Queue{2}});
      },
  };
  for (std::size_t c = 0; c < std::size(invalid_calls); ++c) {
    SCOPED_TRACE(testing::Message() << "invalid call " << c);
    bool refused = false;
    expect_unchanged_despite_failures([&] {
      try {
        invalid_calls[c]();
      } catch (const std::logic_error&) {
        refused = true;
      } catch (const std::runtime_error&) {
        refused = true;  // There are too many writers.
      }
    });
    EXPECT_TRUE(refused);
    expect_unchanged();
  }
}

TEST(AllocationFailure, WhileDrawingFromAllShardsLeavesTheQueueAsItWas) {
  for (const Draws draws : {Draws::Independent, Draws::WithoutReplacement}) {
    NumberedBuffer line(SmallOptions{.max_times_sampled = 1, .rate_limiter = Queue{.size = 40}});
    line.append_many(0, 40);
    ASSERT_EQ(line.replay.size(), 40U);
    std::optional<Sampler> sampler;
    fail_each_allocation(
        [&] {
          sampler.emplace(line.replay.sampler());
          const SampleResult batch =
              sampler->sample(10, {.draws = draws, .timeout = 0ns, .gather = false});
          ASSERT_TRUE(batch);
        },
        [&] { EXPECT_EQ(line.replay.stats().items, 40U) << "no item was drawn"; });
    // No item stays reserved for a batch that was not made.
    EXPECT_TRUE(sampler->sample(30, {.draws = draws, .timeout = 0ns}));
  }
}

TEST(AllocationFailure, WhileAddingTransitionsLosesNoStep) {
  NumberedBuffer line;
  Writer writer = line.replay.writer();
  for (std::uint64_t number = 0; number < 100; ++number) {
    const std::uint64_t from = number + number / 10;  // Every tenth step begins an episode.
    fail_each_allocation(
        [&] {
          (void)writer.add_transition(End::Continue, now(line.id, from), now(line.action, from),
                                      now(line.reward, 1.0F), next(line.id, from + 1));
        },
        [&] { EXPECT_EQ(line.replay.stats().committed_steps, number); });
    ASSERT_EQ(line.replay.stats().committed_steps, number + 1);
  }
  expect_steps_add_up(line.replay);
}

TEST(AllocationFailure, WhileAVectorWriterCommitsLosesNoStepAndRepeatsNone) {
  NumberedBuffer line(SmallOptions{.window = Transitions{.n_step = 3}});
  VectorWriter writers(line.replay, 3);
  for (std::uint64_t step = 0; step < 60; ++step) {
    const std::uint64_t n = step;
    const std::array<std::uint64_t, 3> ids = {n, n, n};
    const std::array<std::uint64_t, 3> nexts = {n + 1, n + 1, n + 1};
    const std::array<float, 3> rewards = {1, 1, 1};
    const End last = step % 20 == 19 ? End::Terminated : End::Continue;
    const std::array<End, 3> ends = {End::Continue, last, End::Continue};
    fail_each_allocation(
        [&] {
          writers.now(line.id, ids);
          writers.now(line.action, ids);
          writers.now(line.reward, rewards);
          writers.next(line.id, nexts);
          (void)writers.completing(ends);
          (void)writers.commit(ends);
        },
        [&] { EXPECT_EQ(line.replay.stats().committed_steps, 3 * step); });
    ASSERT_EQ(line.replay.stats().committed_steps, 3 * step + 3);
  }
  expect_steps_add_up(line.replay);
}

TEST(AllocationFailure, WhileAPrefetcherRunsEndsTheRunAndAnotherRunGoesOn) {
  NumberedBuffer line;
  line.append_many(0, 64);
  Sampler sampler = line.replay.sampler();
  Prefetcher prefetcher(sampler, 16);
  bool failed = true;
  for (std::size_t k = 1; failed; ++k) {
    SCOPED_TRACE(testing::Message() << "allocation " << k << " fails");
    ASSERT_LT(k, 1000U);
    bool thrown = false;
    std::atomic<bool> ended = false;
    std::jthread thread([&](const std::stop_token& stop) {
      fail_allocation(k);
      try {
        prefetcher.run(stop);
      } catch (const std::bad_alloc&) {
        thrown = true;
      }
      failed = allocation_failed();
      ended.store(true);
    });
    // Takes up to 20 batches, until `run` has ended. `next` also fails before it begins.
    int batches = 0;
    while (batches < 20) {
      if (prefetcher.next(10s)) {
        ++batches;
      } else if (ended.load()) {
        break;
      }
    }
    thread.request_stop();
    thread.join();
    EXPECT_EQ(thrown, failed);
    EXPECT_TRUE(thrown || batches == 20) << "a run without a failure goes on";
  }
  EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
}

TEST(AllocationFailure, WhileMakingABufferThrowsAndLeaksNothing) {
  Schema schema;
  schema.observation<float>("state", {4});
  const Options options = SmallOptions{};
  std::optional<ReplayBuffer> replay;
  fail_each_allocation([&] { replay.emplace(schema, options); },
                       [&] { EXPECT_FALSE(replay.has_value()); });
  ASSERT_TRUE(replay.has_value());
  EXPECT_EQ(replay->size(), 0U);
}

TEST(AllocationFailure, WhileMakingAWriterLeavesNoWriterBehind) {
  NumberedBuffer line;
  std::optional<Writer> writer;
  fail_each_allocation([&] { writer.emplace(line.replay.writer()); },
                       [&] { EXPECT_EQ(line.replay.stats().writers, 0U); });
  EXPECT_EQ(line.replay.stats().writers, 1U);
  line.append_many(*writer, 0, 100);
  EXPECT_EQ(line.replay.size(), 64U);
}

TEST(AllocationFailure, WhileMakingManyWritersLeavesNoneBehind) {
  NumberedBuffer line;
  std::optional<VectorWriter> writers;
  fail_each_allocation([&] { writers.emplace(line.replay, 5); },
                       [&] { EXPECT_EQ(line.replay.stats().writers, 0U); });
  EXPECT_EQ(line.replay.stats().writers, 5U);
}

TEST(AllocationFailure, WhileAShardMakesTheWritersOfAShipmentLeavesNoneBehind) {
  Options options = SmallOptions{.max_writers = 2};
  NumberedBuffer shipped(options);
  StepPacker packer(shipped.schema, options, 5);
  Writer writers[] = {packer.writer(), packer.writer()};
  for (Writer& writer : writers) {
    shipped.append(writer, 7, End::Terminated);
  }
  const Blob shipment = packer.take();
  ReplayShard shard(shipped.replay);
  // A failed call that kept a writer would make the next call fail for lack of writers.
  fail_each_allocation(
      [&] { static_cast<void>(shard.append(shipment.bytes())); },
      [&] { EXPECT_TRUE(shipped.replay.stats().writers == 0 || shard.writers() == 1); });
  EXPECT_EQ(shipped.replay.stats().committed_steps, 2U);
  EXPECT_EQ(shard.close_writer(5), 2U);
  EXPECT_EQ(shipped.replay.stats().writers, 0U);
}

TEST(AllocationFailure, WhilePackingLosesNoStepAndRepeatsNone) {
  const Options options = SmallOptions{.capacity_steps = 200, .window = Transitions{.n_step = 3}};
  NumberedBuffer shipped(options);
  NumberedBuffer other(options);
  ReplayShard shards[] = {ReplayShard(shipped.replay), ReplayShard(other.replay)};
  std::optional<StepPacker> packer;
  fail_each_allocation(
      [&] {
        packer.emplace(shipped.schema, options, 5, PackerLanes{.count = 2, .longest_run = 20});
      },
      [] {});
  std::optional<Writer> writer;
  fail_each_allocation([&] { writer.emplace(packer->writer()); },
                       [&] { EXPECT_EQ(packer->steps(), 0U); });
  for (std::uint64_t number = 0; number < 100; ++number) {
    const End end = number % 70 == 69 ? End::Truncated : End::Continue;
    fail_each_allocation([&] { (void)shipped.append(*writer, number, end); },
                         [&] { EXPECT_EQ(packer->steps(), number); });
    ASSERT_EQ(packer->steps(), number + 1);
  }
  for (std::size_t lane = 0; lane < 2; ++lane) {
    Blob blob;
    const std::size_t steps = packer->steps_in(lane);
    fail_each_allocation([&] { blob = packer->take(lane); },
                         [&] { EXPECT_EQ(packer->steps_in(lane), steps); });
    EXPECT_EQ(shards[lane].append(blob.bytes()).steps, steps);
  }
  EXPECT_EQ(shipped.replay.stats().committed_steps + other.replay.stats().committed_steps, 100U);
}

TEST(AllocationFailure, WhileAppendingLosesNoStep) {
  NumberedBuffer line(SmallOptions{.window = Transitions{.n_step = 3, .frame_stack = 2}});
  for (std::uint64_t number = 0; number < 200; ++number) {
    const End end = number % 30 == 29 ? End::Truncated : End::Continue;
    fail_each_allocation([&] { (void)line.append(number, end); },
                         [&] { EXPECT_EQ(line.replay.stats().committed_steps, number); });
    ASSERT_EQ(line.replay.stats().committed_steps, number + 1);
  }
  EXPECT_EQ(line.replay.size(), 64U);
  expect_steps_add_up(line.replay);
}

TEST(AllocationFailure, WhileSamplingLeavesTheSamplerAsItWas) {
  NumberedBuffer line;
  line.append_many(0, 64);
  std::optional<Sampler> sampler;
  fail_each_allocation([&] { sampler.emplace(line.replay.sampler({.seed = 4})); },
                       [&] { EXPECT_FALSE(sampler.has_value()); });
  Sampler untouched = line.replay.sampler({.seed = 4});
  for (const std::size_t n : {16U, 500U, 8U, 3000U}) {
    bool drawn = false;
    fail_each_allocation([&] { drawn = static_cast<bool>(sampler->sample(n)); },
                         [&] { EXPECT_FALSE(drawn); });
    ASSERT_TRUE(drawn && untouched.sample(n));
    const SampleResult expected = untouched.sample(n);
    const SampleResult actual = sampler->sample(n);
    ASSERT_TRUE(expected && actual);
    EXPECT_TRUE(std::ranges::equal(expected->keys(), actual->keys()))
        << "a failed call has advanced the random generator";
  }
  EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
}

TEST(AllocationFailure, WhileUpdatingChangesNothing) {
  NumberedBuffer line(SmallOptions{.shards = 3});
  line.append_many(0, 64);
  std::vector<ItemKey> keys = line.key_list();
  const auto before = line.probabilities();
  std::vector<float> priorities(64);
  for (std::size_t i = 0; i < 64; ++i) {
    priorities[i] = static_cast<float>(i + 1);
  }
  fail_each_allocation([&] { line.replay.update_priorities(keys, priorities); },
                       [&] { EXPECT_EQ(line.probabilities(), before); });
  EXPECT_NEAR(line.probabilities(1 << 14).at(63), 64.0 / 2080.0, 1e-13);
}

TEST(AllocationFailure, WhileMakingABatchOrAPrefetcherThrowsAndLeaksNothing) {
  NumberedBuffer line;
  std::optional<Batch> batch;
  fail_each_allocation([&] { batch.emplace(line.replay.make_batch(32)); },
                       [&] { EXPECT_FALSE(batch.has_value()); });
  Sampler sampler = line.replay.sampler();
  std::optional<Prefetcher> prefetcher;
  fail_each_allocation([&] { prefetcher.emplace(sampler, std::size_t{16}); },
                       [&] { EXPECT_FALSE(prefetcher.has_value()); });
}

}  // namespace
}  // namespace reprise::test
