#include "process/hosted.hpp"
#include "process/raw_guest.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

struct WriterCase {
  std::string name;
  std::function<void(Schema&)> add_fields;
  Window window;
  bool priorities = false;  ///< Whether each step is committed with priorities.
};

void PrintTo(const WriterCase& tested, std::ostream* to) {
  *to << tested.name;
}

std::vector<WriterCase> cases() {
  const Transitions stacked{.n_step = 3, .frame_stack = 4};
  const Sequences sequences{.length = 4, .period = 2, .burn_in = 1};
  return {
      {"Plain", [](Schema&) {}, Transitions{}},
      {"ThreeStepsAndStacks", [](Schema&) {}, stacked, true},
      {"Compressed",
       [](Schema& schema) {
         schema.compress(schema.observation<std::uint8_t>("frame", {16, 40}));
       },
       stacked},
      {"Discount", [](Schema& schema) { schema.discount("discount"); }, Transitions{.n_step = 2}},
      {"MutableColumn", [](Schema& schema) { schema.mutable_column<float>("latent", {5}); },
       Transitions{}},
      {"SequencesWithStates",
       [](Schema& schema) {
         schema.recurrent_state<float>("lstm", {2, 3});
       },
       sequences, true},
      {"OverlappingSequences", [](Schema&) {},
       Sequences{.length = 5, .period = 3, .end = SequenceEnd::Overlap}},
      {"ContinuingSequencesWithStates",
       [](Schema& schema) {
         schema.recurrent_state<float>("lstm", {2, 3});
       },
       Sequences{.length = 5, .period = 3, .end = SequenceEnd::Continue}, true},
  };
}

/// Appends the same random steps to two buffers, by a writer of its own and by a guest's writer.
class GuestWriter : public ::testing::TestWithParam<WriterCase> {
 protected:
  GuestWriter() {
    GetParam().add_fields(schema_);
    const Options options =
        SmallOptions{.capacity_steps = 400,
                     .window = GetParam().window,
                     // Other rules depend on when steps are ingested.
                     .selectors = {Proportional{.initial = InitialPriority::Constant}},
                     .max_writers = 2,
                     .chunk_steps = 16};
    direct_buffer_ = std::make_unique<ReplayBuffer>(schema_, options);
    guest_buffer_ = std::make_unique<ReplayBuffer>(schema_, options);
  }

  /// Writes random bytes; in float fields, random numbers from 0 to 1.
  void write(std::span<std::byte> to, const FieldSpec& spec, Rng& rng) const {
    if (spec.dtype == DType::F32) {
      for (std::size_t at = 0; at < to.size(); at += sizeof(float)) {
        const auto value = static_cast<float>(rng.unit());
        std::memcpy(to.data() + at, &value, sizeof(value));
      }
    } else {
      for (std::byte& byte : to) {
        byte = static_cast<std::byte>(rng.below(4));
      }
    }
  }

  /// Appends a step whose values follow from `rng`.
  CommitStatus step(Writer& writer, Rng rng, End end) const {
    const std::span<const FieldSpec> specs = schema_.fields();
    for (const FieldSpec& spec : specs) {
      const AnyField field = *schema_.find(spec.name);
      if (!spec.traits().has_next || writer.episode_steps() == 0) {
        write(writer.now(field), spec, rng);
      }
      if (spec.traits().has_next) {
        write(writer.next(field), spec, rng);
      }
    }
    std::vector<float> priorities(GetParam().priorities ? writer.completing(end) : 0);
    for (float& priority : priorities) {
      priority = static_cast<float>(rng.unit());
    }
    return writer.commit(end, priorities);
  }

  static void expect_equal(std::span<const std::byte> a, std::span<const std::byte> b,
                           const std::string& what) {
    EXPECT_TRUE(std::ranges::equal(a, b)) << what;
  }
  void expect_equal_batches(const Batch& a, const Batch& b) const {
    for (const FieldSpec& spec : schema_.fields()) {
      const AnyField field = *schema_.find(spec.name);
      expect_equal(a.now(field), b.now(field), spec.name);
      if (spec.traits().has_next) {
        expect_equal(a.next(field), b.next(field), "next " + spec.name);
      }
    }
    expect_equal(std::as_bytes(a.probabilities()), std::as_bytes(b.probabilities()), "P");
    expect_equal(std::as_bytes(a.positions()), std::as_bytes(b.positions()), "positions");
    expect_equal(std::as_bytes(a.episode_ids()), std::as_bytes(b.episode_ids()), "episodes");
    expect_equal(std::as_bytes(a.lengths()), std::as_bytes(b.lengths()), "lengths");
    expect_equal(std::as_bytes(a.discounts()), std::as_bytes(b.discounts()), "discounts");
    expect_equal(std::as_bytes(a.keys()), std::as_bytes(b.keys()), "keys");
    const auto* const sequences = std::get_if<Sequences>(&GetParam().window);
    if (sequences != nullptr && sequences->end == SequenceEnd::Continue) {
      expect_equal(std::as_bytes(a.is_first()), std::as_bytes(b.is_first()), "first steps");
      expect_equal(std::as_bytes(a.terminated()), std::as_bytes(b.terminated()), "terminations");
      expect_equal(std::as_bytes(a.truncated()), std::as_bytes(b.truncated()), "truncations");
    }
  }

  Schema schema_;
  ScalarObservation<std::uint32_t> id_ = schema_.observation<std::uint32_t>("id");
  Column<std::uint8_t> action_ = schema_.column<std::uint8_t>("action", {3});
  Reward reward_ = schema_.reward("reward");
  std::unique_ptr<ReplayBuffer> direct_buffer_;
  std::unique_ptr<ReplayBuffer> guest_buffer_;
};

TEST_P(GuestWriter, LeavesTheBufferAsAWriterOfItsProcessDoes) {
  Hosted hosted(*guest_buffer_, {.ring_steps = 16});
  hosted.serve();
  Guest guest = attach(hosted.address());
  std::optional<Writer> direct = direct_buffer_->writer();
  std::optional<Writer> of_guest = guest.writer();
  Rng rng(7);
  // No other thread makes a buffer ingest, because the writers might then get other chunks.
  for (int i = 0; i < 3'000; ++i) {
    if (!direct->in_episode() || rng.one_in(40)) {
      direct->begin_episode();
      of_guest->begin_episode();
    }
    const End end =
        rng.one_in(9) ? (rng.one_in(2) ? End::Terminated : End::Truncated) : End::Continue;
    ASSERT_EQ(of_guest->completing(end), direct->completing(end));
    const Rng values(rng.next());
    ASSERT_EQ(step(*direct, values, end), CommitStatus::Committed);
    ASSERT_EQ(step(*of_guest, values, end), CommitStatus::Committed);
  }
  direct.reset();
  of_guest.reset();
  yield_while([&] { return guest_buffer_->stats().writers != 0; });
  ASSERT_EQ(direct_buffer_->size(), guest_buffer_->size());
  Sampler direct_sampler = direct_buffer_->sampler({.seed = 3});
  Sampler guest_sampler = guest_buffer_->sampler({.seed = 3});
  for (int i = 0; i < 20; ++i) {
    const SampleResult a = direct_sampler.sample(64, kNoWait);
    const SampleResult b = guest_sampler.sample(64, kNoWait);
    ASSERT_TRUE(a && b);
    expect_equal_batches(*a, *b);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, GuestWriter, ::testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.name; });

TEST(GuestWriterRoom, IsWaitedForOnceTheRingIsFull) {
  SharedNumberedBuffer line(SmallOptions{.capacity_steps = 1'000}, {.ring_steps = 16});
  Writer writer = line.guest.writer({.timeout = 0ns});
  line.hosted.thread = {};  // From now on no thread serves.
  std::uint64_t appended = line.append_until_held(writer);
  // The ring has 16 rows, and the writer needs a few of them for the end of an episode.
  EXPECT_GE(appended, 12U);
  EXPECT_LE(appended, 16U);
  EXPECT_EQ(line.append(writer, appended), CommitStatus::TimedOut);
  line.hosted.serve();
  writer.set_timeout(kNoTimeout);
  for (; appended < 500; ++appended) {
    ASSERT_EQ(line.append(writer, appended), CommitStatus::Committed);
  }
  writer.begin_episode();  // Ends the last episode.
  line.hosted.wait_for_steps(500);
  yield_while([&] { return line.replay.size() != 500; });
  EXPECT_EQ(line.numbers(), number_range(0, 500));
}

TEST(GuestWriterRoom, IsNoLongerWaitedForAfterAStopRequestOrAHooksRefusal) {
  SharedNumberedBuffer line(SmallOptions{}, {.ring_steps = 8});
  std::stop_source source;
  Writer writer = line.guest.writer({.stop = source.get_token()});
  struct WaitOnceHook final : WaitHook {
    bool keep_waiting(std::chrono::nanoseconds waited) noexcept override {
      longest = std::max(longest, waited);
      return waited == 0ns;
    }
    std::chrono::nanoseconds longest{0};
  } hook;
  Writer hooked = line.guest.writer({.hook = &hook});
  line.hosted.thread = {};
  line.append_until_held(hooked, CommitStatus::Stopped);
  EXPECT_GT(hook.longest, 0ns);
  std::jthread later([&] {
    std::this_thread::sleep_for(20ms);
    source.request_stop();
  });
  line.append_until_held(writer, CommitStatus::Stopped);
}

TEST(GuestWriterRoom, IsAlsoLimitedByTheRateLimiter) {
  SharedNumberedBuffer line(
      SmallOptions{
          .capacity_steps = 1'000,
          .rate_limiter =
              SampleToInsertRatio{.samples_per_insert = 1.0, .min_size = 10, .error_buffer = 20.0}},
      {.ring_steps = 8});
  Writer writer = line.guest.writer({.timeout = 30ms});
  std::uint64_t appended = 0;
  std::uint64_t committed = 0;
  while (committed < 30) {  // Before that, a commit may time out because the host is slow.
    while (line.append(writer, appended) == CommitStatus::Committed) {
      ++appended;
    }
    committed = line.replay.stats().committed_steps;
  }
  EXPECT_LE(appended, committed + 8);
  EXPECT_EQ(line.replay.stats().writers_for_limiter.timeouts, 0U)
      << "a guest's wait is not counted";
  writer.set_timeout(kNoTimeout);
  Sampler sampler = line.replay.sampler();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(sampler.sample(10));
    for (int k = 0; k < 10; ++k) {
      ASSERT_EQ(line.append(writer, appended++), CommitStatus::Committed);
    }
  }
}

TEST(GuestWriterRoom, MayBeAskedForManyTimesWhileNoThreadServes) {
  SharedNumberedBuffer line(SmallOptions{.capacity_steps = 1'000}, {.ring_steps = 8});
  std::optional<Writer> writer = line.guest.writer({.timeout = 50us});
  line.hosted.thread = {};
  std::uint64_t appended = line.append_until_held(*writer);
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_EQ(line.append(*writer, appended), CommitStatus::TimedOut);
  }
  line.hosted.serve();
  writer->set_timeout(kNoTimeout);
  EXPECT_EQ(line.append(*writer, appended), CommitStatus::Committed);
  line.hosted.thread = {};
  writer->set_timeout(50us);
  for (int i = 0; i < 1'000; ++i) {
    (void)line.append(*writer, ++appended);
  }
  writer.reset();
  line.hosted.serve();
  yield_while([&] { return line.replay.stats().writers != 0; });
  EXPECT_EQ(line.replay.stats().dead_guest_steps, 0U) << "the host knows that the writer closed";
}

TEST(GuestWriterRoom, OfAWriterWhoseHostIsNotServedIsFreeForOthers) {
  SharedNumberedBuffer line(
      SmallOptions{
          .capacity_steps = 1'000,
          .rate_limiter =
              SampleToInsertRatio{.samples_per_insert = 1.0, .min_size = 1, .error_buffer = 8.0}},
      {.ring_steps = 16});
  Writer of_guest = line.guest.writer({.timeout = 100ms});
  for (std::uint64_t i = 0; line.append(of_guest, i) == CommitStatus::Committed; ++i) {
  }
  line.hosted.thread = {};
  Writer of_host = line.replay.writer();
  Sampler sampler = line.replay.sampler();
  for (std::uint64_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(sampler.sample(1));
    ASSERT_EQ(line.append(of_host, i), CommitStatus::Committed);
  }
}

TEST(GuestVectorWriter, GivesEachEnvironmentItsOwnEpisodes) {
  constexpr std::size_t kEnvironments = 5;
  SharedNumberedBuffer line(
      SmallOptions{.capacity_steps = 10'000, .window = Transitions{.n_step = 3}});
  VectorWriter writers = line.guest.vector_writer(kEnvironments);
  EXPECT_EQ(line.replay.stats().writers, kEnvironments);
  std::vector<std::uint64_t> now(kEnvironments);
  std::vector<std::uint64_t> next(kEnvironments);
  std::vector<float> rewards(kEnvironments);
  std::vector<End> ends(kEnvironments);
  Rng rng(1);
  std::uint64_t steps = 0;
  for (std::size_t e = 0; e < kEnvironments; ++e) {
    now[e] = e * 1'000'000;
  }
  for (int t = 0; t < 500; ++t) {
    for (std::size_t e = 0; e < kEnvironments; ++e) {
      next[e] = now[e] + 1;
      rewards[e] = static_cast<float>(now[e] % 1'000'000);
      ends[e] = rng.one_in(10) ? End::Terminated : End::Continue;
    }
    writers.now(line.id, now);
    writers.now(line.action, now);
    writers.now(line.reward, rewards);
    writers.next(line.id, next);
    ASSERT_EQ(writers.commit(ends), CommitStatus::Committed);
    steps += kEnvironments;
    for (std::size_t e = 0; e < kEnvironments; ++e) {
      now[e] = next[e] + (ends[e] == End::Continue ? 0 : 1'000);
    }
  }
  line.hosted.wait_for_steps(steps);
  Sampler sampler = line.replay.sampler();
  const auto batch = require_batch(sampler.sample(2'000));
  for (std::size_t i = 0; i < batch->size(); ++i) {
    ASSERT_EQ(batch->now(line.action)[i], batch->now(line.id)[i]);
    ASSERT_EQ(batch->next(line.id)[i], batch->now(line.id)[i] + batch->lengths()[i])
        << "windows stay within an episode";
  }
}

TEST(GuestWriterRefusals, NameTheWrongValue) {
  SharedNumberedBuffer line(SmallOptions{
      .selectors = {Proportional{.initial = InitialPriority::FromCaller}}, .max_writers = 3});
  Writer writer = line.guest.writer();
  writer.begin_episode();
  expect_refusal<std::logic_error>([&] { (void)writer.commit(); }, {"unwritten"});
  writer.now(line.id) = writer.now(line.action) = writer.next(line.id) = 0;
  writer.now(line.reward) = 0.0F;
  expect_refusal([&] { (void)writer.commit(); }, {"0 priorities", "FromCaller"});
  const std::vector<float> wrong = {-1.0F};
  expect_refusal([&] { (void)writer.commit(End::Continue, wrong); }, {"-1"});
  expect_refusal<std::runtime_error>([&] { (void)line.guest.vector_writer(3); },
                                     {"max_writers is 3"});
  EXPECT_EQ(line.replay.stats().writers, 1U) << "a refused vector writer keeps none";
  EXPECT_NO_THROW((void)line.guest.vector_writer(2));
}

TEST(GuestWriterPriorities, AreAcceptedAfterALaterAlphaMadeThemTooLarge) {
  SharedNumberedBuffer line(SmallOptions{.selectors = {Proportional{.alpha = 0.5F}}});
  Writer writer = line.guest.writer();
  line.replay.selector(0).set_alpha(4.0F);
  line.append_many(writer, 0, 20, [](std::uint64_t number) { return number == 5 ? 1e10F : 1.0F; });
  EXPECT_THROW((void)line.append(writer, 20, -1.0F), std::invalid_argument);
  line.hosted.wait_for_steps(20);
  EXPECT_EQ(line.numbers(), number_range(0, 20));
}

TEST(GuestWriterPriorities, AreCheckedWithTheAlphaAtTheWritersCreation) {
  SharedNumberedBuffer line(SmallOptions{.selectors = {Proportional{.alpha = 4.0F}}});
  Writer writer = line.guest.writer();
  EXPECT_THROW((void)line.append(writer, 0, 1e10F), std::invalid_argument);
  line.replay.selector(0).set_alpha(0.5F);
  Writer later = line.guest.writer();
  EXPECT_EQ(line.append(later, 0, 1e10F), CommitStatus::Committed);
}

TEST(GuestWriterLife, EndsItsEpisodeAsTruncatedAndGivesItsPlaceBack) {
  SharedNumberedBuffer line(SmallOptions{.window = Transitions{.n_step = 5}, .max_writers = 1});
  {
    Writer writer = line.guest.writer();
    line.append_many(writer, 0, 10);
  }
  yield_while([&] { return line.replay.stats().writers != 0; });
  EXPECT_EQ(line.numbers(), number_range(0, 10));
  EXPECT_EQ(line.replay.stats().cut_episodes, 0U) << "the guest did not die";
  (void)line.guest.writer();
}

TEST(GuestWriterLife, GivesItsPlaceToTheNextWriterOnceItsManyStepsAreTaken) {
  SharedNumberedBuffer line(SmallOptions{.capacity_steps = 10'000, .max_writers = 1},
                            {.ring_steps = 2048});
  {
    Writer writer = line.guest.writer();
    line.hosted.thread = {};  // No thread serves while the writer appends and closes.
    line.append_many(writer, 0, 2000);
  }
  process::Channel next = raw_channel(line.hosted.address());
  next.send(
      process::MessageKind::Hello,
      process::bytes_of(process::Hello{.purpose = process::Purpose::Writer, .environments = 1}));
  line.hosted.serve();
  EXPECT_EQ(answer(next)->kind, process::MessageKind::Welcome);
  EXPECT_EQ(line.replay.stats().committed_steps, 2000U);
}

TEST(GuestWriterLife, EndsWithTheBufferOrItsHost) {
  for (const bool close : {true, false}) {
    NumberedBuffer line;
    auto hosted = std::make_unique<Hosted>(line.replay, HostOptions{.ring_steps = 8});
    hosted->serve();
    Guest guest = attach(hosted->address());
    Writer writer = guest.writer();
    line.append_many(writer, 0, 3);
    std::jthread later([&] {
      std::this_thread::sleep_for(10ms);
      if (close) {
        line.replay.close();
      } else {
        hosted.reset();
      }
    });
    CommitStatus status = CommitStatus::Committed;
    for (std::uint64_t i = 3; status == CommitStatus::Committed; ++i) {
      status = line.append(writer, i);
    }
    EXPECT_EQ(status, CommitStatus::Closed);
    later.join();
    EXPECT_ANY_THROW((void)guest.writer());
  }
}

}  // namespace
}  // namespace reprise::test
