#include <reprise/remote.hpp>

#include "remote/batches.hpp"
#include "remote/remote_writers.hpp"
#include "testing/test.hpp"
#include "testing/worlds/world.hpp"

namespace reprise::test {
namespace {

Options options_of(const Window& window) {
  return Options{.capacity_steps = 160,
                 .window = window,
                 .selectors = {Proportional{.alpha = 0.6F, .epsilon = 0.01F}},
                 .max_writers = 6,
                 .chunk_steps = 24,
                 .shards = 2,
                 .key_tag = 9};
}

/// Two buffers that get the same steps: `direct` from its own writers, `shipped` by shipments.
class BufferPair {
 public:
  explicit BufferPair(const Window& window, bool with_states = false, bool compressed = false)
      : world({.states = with_states, .compressed = compressed}),
        direct(world.schema(), options_of(window)),
        shipped(world.schema(), options_of(window)),
        packer(world.schema(), options_of(window), 77),
        shard(shipped) {}

  /// Adds an environment, with a writer for each buffer. Returns the environment's number.
  std::size_t add_environment() {
    writers.push_back({direct.writer(), packer.writer()});
    return writers.size() - 1;
  }

  /// Appends steps of one environment with random priorities and ends. Some episodes have no end:
  /// the next one begins in the middle.
  void step(std::size_t environment, std::size_t steps) {
    for (std::size_t i = 0; i < steps; ++i) {
      auto& pair = writers[environment];
      const std::uint64_t roll = random.next() % 16;
      const bool begins = !pair[0].in_episode() || roll == 0;
      const End end = roll == 1 ? End::Terminated : roll == 2 ? End::Truncated : End::Continue;
      const bool with_priorities = random.next() % 2 == 0;
      const std::uint64_t seed = random.next();
      if (begins) {
        pair[0].begin_episode();
        pair[1].begin_episode();
      }
      // Both buffers get the contents of one name, which has the episode id in `direct`.
      const StepName name = World::name_of(pair[0].episode_id(), pair[0].episode_steps());
      for (Writer& writer : pair) {
        if (begins) {
          world.write_first(writer, name);
        }
        world.write_step(writer, name);
        world.write_states(writer, name);
        Rng priority(seed);
        std::vector<float> priorities(with_priorities ? writer.completing(end) : 0);
        for (float& value : priorities) {
          value = static_cast<float>(priority.next() % 1000) * 0.01F;
        }
        ASSERT_EQ(writer.commit(end, priorities), CommitStatus::Committed);
      }
    }
  }

  AppendResult ship() {
    const Blob blob = packer.take();
    return blob.empty() ? AppendResult{} : shard.append(blob.bytes());
  }

  /// The name of the first count in which the buffers differ, or of the first part of a batch drawn
  /// with the same seed; empty if all are equal.
  std::string difference() {
    if (direct.stats().committed_steps != shipped.stats().committed_steps) {
      return "committed_steps";
    }
    // `size` ingests, so that the next statistics count all items.
    if (direct.size() != shipped.size() || direct.stats().items != shipped.stats().items) {
      return "size";
    }
    if (direct.stats().items == 0) {
      return "";
    }
    const std::uint64_t seed = random.next();
    return test::difference(direct, *as_lvalue(direct.sampler({.seed = seed})).sample(300),
                            *as_lvalue(shipped.sampler({.seed = seed})).sample(300));
  }

  World world;
  ReplayBuffer direct;
  ReplayBuffer shipped;
  StepPacker packer;
  ReplayShard shard;
  std::vector<std::array<Writer, 2>> writers;
  Rng random{5};
};

struct Case {
  const char* name;
  Window window;
  bool with_states = false;
  bool compressed = false;
};

class AppendOf : public testing::TestWithParam<Case> {};

TEST_P(AppendOf, ShipmentsGiveTheSameItemsBitForBitAsWritersInTheProcess) {
  BufferPair twins(GetParam().window, GetParam().with_states, GetParam().compressed);
  for (int e = 0; e < 3; ++e) {
    twins.add_environment();
  }
  for (std::size_t round = 0; round < scaled(120, 20); ++round) {
    for (std::size_t e = 0; e < 3; ++e) {
      twins.step(e, twins.random.next() % 12);
    }
    const AppendResult result = twins.ship();
    ASSERT_EQ(result.status, CommitStatus::Committed);
    ASSERT_EQ(result.restarted, 0U);
    ASSERT_EQ(twins.difference(), "") << "in round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Windows, AppendOf,
    testing::Values(
        Case{"one_step", Transitions{}}, Case{"n_step", Transitions{.n_step = 3}},
        Case{"stacked", Transitions{.n_step = 2, .frame_stack = 4}},
        Case{"zero_padded", Sequences{.length = 4, .period = 3, .burn_in = 1}, true},
        Case{"without_burn_in", Sequences{.length = 4, .period = 3}, true},
        Case{"dropped", Sequences{.length = 4, .period = 2, .end = SequenceEnd::Drop}, true},
        Case{"overlapping", Sequences{.length = 4, .period = 3, .end = SequenceEnd::Overlap}, true},
        Case{"stacked_sequences",
             Sequences{.length = 4, .period = 2, .n_step = 2, .frame_stack = 3}, true},
        Case{"compressed", Transitions{.n_step = 2, .frame_stack = 4}, false, true}),
    [](const auto& tested) { return tested.param.name; });

TEST(Append, TheDestructionOfAWriterEndsItsEpisodeInTheShard) {
  BufferPair twins(Transitions{.n_step = 3});
  const std::size_t environment = twins.add_environment();
  while (!twins.writers[environment][0].in_episode() ||
         twins.writers[environment][0].episode_steps() < 2) {
    twins.step(environment, 1);
  }
  twins.ship();
  twins.writers.clear();
  const AppendResult result = twins.ship();  // A shipment of an episode's end alone.
  EXPECT_EQ(result.steps, 0U);
  EXPECT_EQ(twins.difference(), "");
}

TEST(Append, OfARepeatedShipmentAppendsNothing) {
  BufferPair twins(Transitions{.n_step = 3});
  twins.add_environment();
  for (int round = 0; round < 5; ++round) {
    twins.step(0, 7);
    EXPECT_GT(twins.packer.bytes(), 0U);
    const Blob blob = twins.packer.take();
    EXPECT_EQ(twins.packer.bytes(), 0U);
    EXPECT_EQ(twins.shard.append(blob.bytes()).steps, 7U);
    const AppendResult again = twins.shard.append(blob.bytes());
    EXPECT_TRUE(again.repeated);
    EXPECT_EQ(again.steps, 0U);
    ASSERT_EQ(twins.difference(), "");
  }
  EXPECT_EQ(twins.packer.sequence(), 5U);
  twins.step(0, 3);
  EXPECT_EQ(StepPacker::steps_of(twins.packer.take().bytes()), 3U);
  EXPECT_THROW((void)StepPacker::steps_of({}), std::invalid_argument);
}

TEST(Append, ContinuesAtTheStepAtWhichTheLimiterHeldIt) {
  World world;
  Options options = options_of(Transitions{});
  options.max_writers = 1;
  options.rate_limiter = SampleToInsertRatio{.samples_per_insert = 1.0, .error_buffer = 8.0};
  ReplayBuffer replay(world.schema(), options);
  ReplayShard shard(replay);
  StepPacker packer(world.schema(), options_of(Transitions{}));
  Writer writer = packer.writer();
  world.append(writer, 64);
  const Blob blob = packer.take();
  Sampler sampler = replay.sampler();
  std::size_t steps = 0;
  int calls = 0;
  for (auto status = CommitStatus::TimedOut; status != CommitStatus::Committed; ++calls) {
    ASSERT_LT(calls, 100);
    const AppendResult result = shard.append(blob.bytes(), 0ns);
    status = result.status;
    steps += result.steps;
    EXPECT_EQ(result.restarted, 0U);
    ASSERT_EQ(replay.stats().committed_steps, steps);
    sampler.sample(8, {.timeout = 0ns});
  }
  EXPECT_GT(calls, 1);
  EXPECT_EQ(steps, 64U);
  EXPECT_TRUE(shard.append(blob.bytes()).repeated);
}

/// Lets a call begin to wait, and ends its wait when the hook is asked for the second time.
class EndsWaits final : public WaitHook {
 public:
  [[nodiscard]] bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
    waited_ = waited_ || waited.count() != 0;
    return !waited_;
  }

 private:
  bool waited_ = false;
};

TEST(Append, ReportsStoppedWhenItsHookEndsTheWait) {
  World world;
  Options options = options_of(Transitions{});
  options.rate_limiter = SampleToInsertRatio{.samples_per_insert = 1.0, .error_buffer = 64.0};
  ReplayBuffer replay(world.schema(), options);
  ReplayShard shard(replay);
  std::vector<Blob> blobs;
  std::vector<ShipmentOf> all;
  for (std::uint64_t id = 0; id < 2; ++id) {
    StepPacker packer(world.schema(), options, id);
    Writer writer = packer.writer();
    world.append(writer, 200);
    blobs.push_back(packer.take());
    all.push_back({id, blobs.back().bytes()});
  }
  EndsWaits hook;
  const AppendResult result = shard.append(blobs[0].bytes(), kNoTimeout, &hook);
  EXPECT_EQ(result.status, CommitStatus::Stopped);
  EXPECT_EQ(result.steps, replay.stats().committed_steps);
  EndsWaits another;
  const Blob answer =
      shard.append_all(shipments_of(7, 0, all).bytes(), kNoTimeout, all.size(), &another);
  for (const ShipmentOutcome& outcome : outcomes_of(answer.bytes())) {
    EXPECT_EQ(outcome.kind, ShipmentOutcome::Kind::TimedOut);
  }
}

TEST(Append, WithATimeoutOf0WaitsForNoOtherAppend) {
  World world;
  Options options = options_of(Transitions{});
  options.max_writers = 1;
  options.rate_limiter = SampleToInsertRatio{.samples_per_insert = 1.0, .error_buffer = 8.0};
  ReplayBuffer replay(world.schema(), options);
  ReplayShard shard(replay);
  std::vector<Blob> blobs;
  for (int i = 0; i < 2; ++i) {
    StepPacker packer(world.schema(), options);
    Writer writer = packer.writer();
    world.append(writer, 64);
    blobs.push_back(packer.take());
  }
  std::jthread waiting(
      [&] { EXPECT_EQ(shard.append(blobs[0].bytes()).status, CommitStatus::Closed); });
  yield_while([&] { return replay.stats().writers_for_limiter.waiting_now == 0; });
  EXPECT_EQ(shard.append(blobs[0].bytes(), 0ns).status, CommitStatus::TimedOut);
  EXPECT_THROW((void)shard.append(blobs[1].bytes(), 0ns), std::runtime_error)
      << "all writers of the shard are taken";
  EXPECT_EQ(shard.writers(), 1U);
  replay.close();
}

TEST(Append, OfAnEpisodeWhoseBeginningWentElsewhereStartsInTheMiddle) {
  for (const Window& window :
       {Window(Transitions{.n_step = 3}), Window(Sequences{.length = 4, .period = 3})}) {
    World world;
    StepPacker packer(world.schema(), options_of(window));
    Writer writer = packer.writer();
    world.append(writer, 10);
    const Blob first_part = packer.take();
    world.append(writer, 11, End::Terminated);
    const Blob second_part = packer.take();
    ReplayBuffer replay(world.schema(), options_of(window));
    ReplayShard shard(replay);
    const AppendResult result = shard.append(second_part.bytes());
    EXPECT_EQ(result.restarted, 1U);
    const bool sequences = std::holds_alternative<Sequences>(window);
    EXPECT_EQ(result.steps, sequences ? 9U : 11U) << "sequences begin at multiples of 3";
    Sampler sampler = replay.sampler();
    const SampleResult batch = require_batch(sampler.sample(64));
    for (std::size_t i = 0; i < batch->size(); ++i) {
      EXPECT_LT(batch->positions()[i], result.steps);
      EXPECT_EQ(world.name_in(*batch, i)->position, batch->positions()[i] + 21 - result.steps)
          << "a shipment carries the observation before its first step";
    }
    EXPECT_THROW((void)shard.append(first_part.bytes()), std::invalid_argument)
        << "earlier steps would be appended behind later ones";
  }
}

TEST(Append, AfterALostShipmentStartsTheEpisodeAgain) {
  World world;
  ReplayBuffer replay(world.schema(), options_of(Transitions{.n_step = 3}));
  StepPacker packer(world.schema(), options_of(Transitions{.n_step = 3}));
  ReplayShard shard(replay);
  Writer writer = packer.writer();
  for (int shipment = 0; shipment < 3; ++shipment) {
    world.append(writer, 5);
    const Blob blob = packer.take();
    if (shipment != 1) {
      EXPECT_EQ(shard.append(blob.bytes()).restarted, shipment == 2 ? 1U : 0U);
    }
  }
  EXPECT_EQ(replay.size(), 8U)
      << "5 items of the episode that was cut, and 3 of the one that goes on";
}

TEST(Append, ClosingALostWriterEndsItsEpisodesAtTheirLastStepsInTheShard) {
  BufferPair twins(Transitions{.n_step = 3});
  twins.add_environment();
  twins.add_environment();
  for (std::size_t e = 0; e < 2; ++e) {
    do {
      twins.step(e, 1);
    } while (twins.writers[e][0].episode_steps() < 4 || !twins.writers[e][0].in_episode());
  }
  twins.ship();
  EXPECT_EQ(twins.shard.writers(), 1U);
  EXPECT_EQ(twins.shipped.stats().writers, 2U);
  EXPECT_GT(twins.shipped.stats().pending_steps, 0U);
  EXPECT_EQ(twins.shard.close_writer(77), 2U);
  EXPECT_EQ(twins.shard.close_writer(77), 0U);
  EXPECT_EQ(twins.shard.close_writer(78), 0U);
  EXPECT_EQ(twins.shard.writers(), 0U);
  EXPECT_EQ(twins.shipped.stats().writers, 0U);
  EXPECT_EQ(twins.shipped.size(), twins.shipped.stats().committed_steps)
      << "every window is complete";
  twins.writers.clear();
  EXPECT_EQ(twins.difference(), "");
}

TEST(Append, RemembersTheWritersThatWereClosedLast) {
  World world;
  ReplayBuffer replay(world.schema(), options_of(Transitions{}));
  ReplayShard shard(replay);
  constexpr std::uint64_t kRemembered = remote::RemoteWriters::kRemembered;
  std::vector<Blob> blobs;
  for (std::uint64_t id = 0; id < 2 * kRemembered + 1; ++id) {
    StepPacker packer(world.schema(), options_of(Transitions{}), id);
    Writer writer = packer.writer();
    world.append(writer);
    blobs.push_back(packer.take());
    ASSERT_EQ(shard.append(blobs.back().bytes()).steps, 1U);
    if (id != 0) {
      ASSERT_EQ(shard.close_writer(id), 1U);
    }
  }
  EXPECT_TRUE(shard.append(blobs[kRemembered + 1].bytes()).repeated);
  EXPECT_FALSE(shard.append(blobs[1].bytes()).repeated) << "a writer closed long ago is forgotten";
  EXPECT_TRUE(shard.append(blobs[0].bytes()).repeated) << "writer 0 is not closed";
  EXPECT_EQ(shard.writers(), 2U);
}

TEST(Append, RemembersAnOpenWriterBetweenTwoEpisodes) {
  World world;
  Options options = options_of(Transitions{});
  options.max_writers = 1;
  ReplayBuffer replay(world.schema(), options);
  ReplayShard shard(replay);
  std::optional<Blob> first;
  constexpr std::uint64_t kRemembered = remote::RemoteWriters::kRemembered;
  for (std::uint64_t id = 0; id < 2 * kRemembered + 2; ++id) {
    StepPacker packer(world.schema(), options, id);
    Writer writer = packer.writer();
    world.append(writer, 1, End::Terminated);
    const Blob blob = packer.take();
    ASSERT_EQ(shard.append(blob.bytes()).steps, 1U);
    if (id == 0) {
      first = blob;
    } else {
      (void)shard.close_writer(id);
    }
  }
  EXPECT_TRUE(shard.append(first->bytes()).repeated);
}

/// A shard with room for two writers. A local writer takes one place, so that of the two
/// environments of a packer only one can have an open episode in the shard.
class OnePlace : public testing::Test {
 protected:
  static Options options() {
    Options options = options_of(Transitions{});
    options.max_writers = 2;
    return options;
  }

  World world;
  ReplayBuffer replay{world.schema(), options()};
  ReplayShard shard{replay};
  Writer local_writer = replay.writer();
  StepPacker packer{world.schema(), options(), 5};
  std::array<Writer, 2> writers{packer.writer(), packer.writer()};
};

TEST_F(OnePlace, RefusesTheWholeOfAShipmentOfTwoOpenEpisodes) {
  for (Writer& writer : writers) {
    world.append(writer);
  }
  const Blob blob = packer.take();
  EXPECT_THROW((void)shard.append(blob.bytes()), std::runtime_error);
  EXPECT_EQ(replay.stats().committed_steps, 0U);
  EXPECT_EQ(replay.stats().writers, 1U);
}

TEST_F(OnePlace, TakesWholeEpisodesAndOneThatIsOpen) {
  for (int round = 0; round < 2; ++round) {
    world.append(writers[0], 4, End::Terminated);
    world.append(writers[1], 3, round == 0 ? End::Terminated : End::Continue);
    EXPECT_EQ(shard.append(packer.take().bytes()).steps, 7U);
  }
  EXPECT_EQ(replay.stats().writers, 2U);
  world.append(writers[1], 2);
  const AppendResult more = shard.append(packer.take().bytes());
  EXPECT_EQ(more.steps, 2U);
  EXPECT_EQ(more.restarted, 0U) << "the open episode has kept its writer";
}

TEST_F(OnePlace, TakesTheEndOfAClosedWritersEpisodeWithoutAPlace) {
  world.append(writers[0]);
  (void)shard.append(packer.take().bytes());
  EXPECT_EQ(shard.close_writer(5), 1U);
  const Writer another = replay.writer();
  { const Writer ended = std::move(writers[0]); }
  EXPECT_EQ(shard.append(packer.take().bytes()).steps, 0U);
}

TEST(Append, TakesStepsWhosePriorityIsTooLargeForTheShardsAlpha) {
  NumberedBuffer line(SmallOptions{.selectors = {Proportional{.alpha = 0.5F}}});
  line.replay.selector(0).set_alpha(4.0F);
  ReplayShard shard(line.replay);
  StepPacker packer(line.schema, SmallOptions{.selectors = {Proportional{.alpha = 0.5F}}}, 5);
  Writer writer = packer.writer();
  line.append_many(writer, 0, 20, [](std::uint64_t number) { return number == 5 ? 1e10F : 1.0F; });
  (void)shard.append(packer.take().bytes());
  EXPECT_EQ(line.numbers(), number_range(0, 20));
}

TEST(Append, OfManyWritersWhileAClientDrawsTakesEveryStepOnce) {
  World world;
  Options options = options_of(Transitions{.n_step = 3});
  options.capacity_steps = 100'000;
  options.chunk_steps = 64;
  ReplayBuffer replay(world.schema(), options);
  ReplayShard shard(replay);
  constexpr int kWriters = 3;
  const std::size_t shipments = scaled(100, 20);
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      StepPacker packer(world.schema(), options_of(Transitions{.n_step = 3}),
                        static_cast<std::uint64_t>(w));
      Writer writer = packer.writer();
      for (std::size_t i = 0; i < shipments; ++i) {
        world.append(writer, 20, i % 3 == 0 ? End::Terminated : End::Continue);
        const Blob shipment = packer.take();
        (void)shard.append(shipment.bytes());
        (void)shard.append(shipment.bytes());
      }
    });
  }
  ShardClient client(world.schema(), options, 1);
  Batch batch = replay.make_batch(16);
  for (std::size_t i = 0; i < shipments; ++i) {
    client.answer(0, shard.exchange(client.request(0).bytes()).bytes());
    if (const auto ticket = client.begin(batch, 0, 16)) {
      client.answer(0, shard.exchange(client.request(0).bytes()).bytes());
      const ShardClient::Origins origins = client.finish(*ticket);
      const std::vector<float> priorities(16, 2.0F);
      EXPECT_EQ(client.update(batch.keys(), origins.shards, origins.incarnations, priorities), 0U);
    }
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(replay.stats().committed_steps, kWriters * shipments * 20);
  EXPECT_EQ(shard.writers(), 3U);
}

TEST(ShardEnds, RefuseSelectorsAndLimitsThatNeedAllShardsAtOnce) {
  World world;
  Options limited = options_of(Transitions{});
  limited.max_times_sampled = 2;
  ReplayBuffer with_limit(world.schema(), limited);
  EXPECT_THROW(ReplayShard shard(with_limit), std::invalid_argument);
  for (const Selector& selector : {Selector(Fifo{}), Selector(MaxHeap{}), Selector(RankBased{}),
                                   Selector(Mixture{}), Selector(Recency{})}) {
    Options options = options_of(Transitions{});
    options.selectors = {selector};
    ReplayBuffer replay(world.schema(), options);
    EXPECT_THROW(ReplayShard shard(replay), std::invalid_argument);
    EXPECT_THROW(ShardClient client(world.schema(), options, 1), std::invalid_argument);
  }
}

}  // namespace
}  // namespace reprise::test
