#include "process/forked.hpp"
#include "process/raw_guest.hpp"
#include "testing/test.hpp"

#include <sys/mman.h>
#include <unistd.h>

// Tests of guests that write into their shared memory what no guest of this library would write.

namespace reprise::test {
namespace {

using process::MessageKind;
using process::StepHeader;

TEST(HostileRegion, ThatIsTooSmallOrMayShrinkIsRefused) {
  const process::Region region = process::Region::make(8192);
  EXPECT_NO_THROW((void)process::Region::map(process::Descriptor(::dup(region.file())), 8192));
  EXPECT_THROW((void)process::Region::map(process::Descriptor(::dup(region.file())), 8193),
               std::runtime_error);
  process::Descriptor unsealed(::memfd_create("reprise-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.number(), 8192), 0);
  EXPECT_THROW((void)process::Region::map(std::move(unsealed), 8192), std::runtime_error);
}

/// The host disconnects a writer whose row is invalid, and keeps the steps before that row.
TEST(HostileRing, WithAnInvalidRowIsDisconnectedAndItsEarlierStepsStay) {
  struct Damage {
    const char* what;
    StepHeader header;
    std::uint64_t published;
  };
  const StepHeader step{};
  const StepHeader first{.first = 1};
  const std::vector<Damage> cases = {
      {"no episode", step, 1},
      {"unknown kind", {.kind = static_cast<StepHeader::Kind>(2), .first = 1}, 1},
      {"unknown end", {.end = 3, .first = 1}, 2},
      {"no row behind the last", {.end = 1, .first = 1}, 1},
      {"published beyond the ring", first, 17},
      {"published far ahead", first, std::uint64_t{1} << 63U},
      {"published before", first, ~std::uint64_t{0}},
      {"too many priorities", {.first = 1, .priorities = ~0U}, 1},
      {"a priority too many", {.first = 1, .priorities = 2}, 1},
      {"a priority that is no number", {.first = 1, .priorities = 1}, 1},
  };
  for (const Damage& damage : cases) {
    SCOPED_TRACE(damage.what);
    HostileFixture world;
    RawWriter writer(world.hosted.address());
    writer.header(0, {.end = 1, .first = 1});
    writer.words().publish(2);
    world.hosted.wait_for_steps(1);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(writer.layout.priorities(writer.row(2)), &nan, sizeof(nan));
    writer.header(2, damage.header);
    writer.words().publish(2 + damage.published);
    yield_while([&] { return !writer.is_disconnected(); });
    world.wait_until_no_writers();
    EXPECT_EQ(world.committed(), 1U);
    expect_steps_add_up(world.replay);
    world.expect_served();
  }
}

TEST(HostileRing, WithoutThePrioritiesThatASelectorNeedsIsDisconnected) {
  HostileFixture world(
      SmallOptions{.selectors = {Proportional{.initial = InitialPriority::FromCaller}}});
  RawWriter writer(world.hosted.address());
  writer.header(0, {.end = 1, .first = 1});
  writer.words().publish(2);
  yield_while([&] { return !writer.is_disconnected(); });
  world.wait_until_no_writers();
  EXPECT_EQ(world.committed(), 0U);
}

TEST(HostileRing, ThatIsDamagedIsReportedToAllItsWriters) {
  HostileFixture world;
  const auto writers = std::make_shared<process::WriterConnection>(
      process::open_connection(world.hosted.address(),
                               {.purpose = process::Purpose::Writer, .environments = 2},
                               {.timeout = 60s}),
      2);
  process::RingWriter damaged(writers, 0, {});
  process::RingWriter full(writers, 1, {.timeout = 0ns});
  const auto commit = [](process::RingWriter& writer) { return writer.commit(End::Continue, {}); };
  world.hosted.thread = {};  // From now on, no thread takes steps out of the ring.
  damaged.begin_episode();
  full.begin_episode();
  while (commit(full) == CommitStatus::Committed) {
  }
  process::RingLayout::words(writers->connection->memory.data(), 0).publish(1000);
  full.set_timeout(kNoTimeout);
  world.hosted.serve();
  for (process::RingWriter* const writer : {&full, &damaged, &full}) {
    expect_refusal<std::runtime_error>(
        [&] { (void)commit(*writer); },
        {"Writer::commit", "the memory of a guest's writer is damaged", "more rows"});
  }
}

/// The host accepts any values of fields, such as NaN. They must not reach other steps,
/// probabilities or weights.
TEST(HostileRing, OfFieldsThatAreNaNHarmsOnlyItsOwnSteps) {
  HostileFixture world(SmallOptions{.window = Transitions{.n_step = 3}});
  world.append_many(0, 40);
  const std::size_t own_items = world.replay.size();
  RawWriter writer(world.hosted.address());
  constexpr std::uint64_t kSteps = 10;
  for (std::uint64_t step = 0; step <= kSteps; ++step) {
    std::byte* const row = writer.row(step);
    std::fill(row, writer.layout.priorities(row), std::byte{0xFF});  // As a float, this is NaN.
    writer.header(step, {.end = step == kSteps - 1 ? std::uint8_t{1} : std::uint8_t{0},
                         .first = step == 0 ? std::uint8_t{1} : std::uint8_t{0}});
  }
  writer.words().publish(kSteps + 1);
  yield_while([&] { return world.replay.size() != own_items + kSteps; });
  Sampler sampler = world.replay.sampler();
  std::size_t hostile = 0;
  for (int round = 0; round < 2; ++round) {
    const auto batch = require_batch(sampler.sample(500));
    for (std::size_t i = 0; i < batch->size(); ++i) {
      const bool own = batch->now(world.id)[i] < 40;
      hostile += own ? 0 : 1;
      EXPECT_EQ(std::isfinite(batch->returns(world.reward)[i]), own);
      EXPECT_GT(batch->probabilities()[i], 0.0);
      EXPECT_LE(batch->probabilities()[i], 1.0);
      EXPECT_GT(batch->weights()[i], 0.0F);
      EXPECT_LE(batch->weights()[i], 1.0F);
    }
    const std::vector<float> priorities(batch->size(), 0.5F);
    EXPECT_EQ(sampler.update_priorities(batch->keys(), priorities).stale, 0U);
  }
  EXPECT_GT(hostile, 0U);
  expect_steps_add_up(world.replay);
}

/// The host has read a step and the limiter has refused it. When the host tries again, it must use
/// what it has read, even if the guest has overwritten the row.
TEST(HostileRing, CannotChangeAStepThatTheLimiterHolds) {
  for (const StepHeader::Kind kind : {StepHeader::Kind::Cut, StepHeader::Kind::Step}) {
    HostileFixture world(
        SmallOptions{.rate_limiter = SampleToInsertRatio{
                         .samples_per_insert = 1.0, .min_size = 2, .error_buffer = 4.0}});
    RawWriter writer(world.hosted.address());
    const auto held = [&] {
      return process::RingLayout::shared(writer.memory).held.load(base::Order::Relaxed) ==
             static_cast<std::uint32_t>(process::HoldReason::ByLimiter);
    };
    std::uint64_t row = 0;
    for (; !held() && row < 100; ++row) {
      writer.header(row, {.first = row == 0 ? std::uint8_t{1} : std::uint8_t{0}});
      writer.words().publish(row + 1);
      yield_while([&] { return !held() && writer.words().consumed() <= row; });
    }
    ASSERT_LT(row, 100U);
    const std::uint64_t before = world.committed();
    writer.header(row - 1, {.kind = kind, .end = 2});  // The row of the refused step.
    for (std::uint64_t more = 0; more < 4; ++more) {
      writer.header(row + more, {});
    }
    writer.words().publish(row + 4);
    Sampler sampler = world.replay.sampler();
    for (int i = 0; i < 20 && world.committed() < before + 2 && !writer.is_disconnected(); ++i) {
      ASSERT_TRUE(sampler.sample(1));
      std::this_thread::sleep_for(2ms);
    }
    yield_while([&] { return world.committed() < before + 2 && !writer.is_disconnected(); });
    EXPECT_FALSE(writer.is_disconnected());
    expect_steps_add_up(world.replay);
    world.expect_served();
  }
}

TEST(HostileRing, IsNotReadBeyondTheRowsPublishedWhenTheGuestLeft) {
  HostileFixture world(
      SmallOptions{.rate_limiter = SampleToInsertRatio{
                       .samples_per_insert = 1.0, .min_size = 2, .error_buffer = 4.0}});
  std::optional<RawWriter> writer(world.hosted.address());
  for (std::uint64_t row = 0; row < 10; ++row) {
    writer->header(row, {.first = row == 0 ? std::uint8_t{1} : std::uint8_t{0}});
  }
  writer->words().publish(10);
  writer->connection->channel.send(MessageKind::Bye);
  yield_while([&] { return !writer->is_disconnected(); });
  ASSERT_LT(world.committed(), 10U) << "the limiter holds some of the rows";
  writer->words().publish(14);
  Sampler sampler = world.replay.sampler();
  while (world.replay.stats().writers != 0) {
    sampler.sample(1, {.timeout = 1ms});
  }
  EXPECT_EQ(world.committed(), 10U);
  EXPECT_EQ(world.replay.stats().cut_episodes, 0U) << "the guest has said that it leaves";
  EXPECT_EQ(world.replay.stats().dead_guest_steps, 0U);
}

/// Overwrites one word of the memory.
void scribble(std::byte* memory, std::size_t bytes, Rng& rng) {
  auto* const words = reinterpret_cast<std::atomic<std::uint64_t>*>(memory);
  words[rng.below(bytes / sizeof(std::uint64_t))] = rng.one_in(2) ? rng.next() : rng.below(20);
}

/// A writer that publishes rows which may be anything.
class ScribblingWriter {
 public:
  static constexpr std::size_t kEnvironments = 3;

  ScribblingWriter(const std::string& address, Rng& rng)
      : writer_(address, kEnvironments), rng_(rng) {}

  /// Writes until the host ends the connection, or for a while.
  void run() {
    for (int i = 0; i < 3'000 && (i % 64 != 0 || !writer_.is_disconnected()); ++i) {
      const std::size_t e = rng_.below(kEnvironments);
      switch (rng_.below(8)) {
        case 0:
          scribble(writer_.memory, writer_.layout.bytes(), rng_);
          break;
        case 1:
          write_priority(e);
          break;
        case 2:
          published_[e] += rng_.one_in(50) ? rng_.below(40) : 0;
          writer_.words(e).publish(published_[e]);
          break;
        default:
          write_header(e);
          published_[e] += published_[e] < writer_.words(e).consumed() + 14 ? 1U : 0U;
          writer_.words(e).publish(published_[e]);
      }
    }
  }

 private:
  void write_priority(std::size_t e) {
    const float priority =
        rng_.one_in(2) ? static_cast<float>(rng_.unit()) : std::numeric_limits<float>::quiet_NaN();
    std::memcpy(writer_.layout.priorities(writer_.row(rng_.below(16), e)), &priority, 4);
  }
  void write_header(std::size_t e) {
    writer_.header(rng_.below(16),
                   {.kind = rng_.one_in(6) ? StepHeader::Kind::Cut : StepHeader::Kind::Step,
                    .end = static_cast<std::uint8_t>(rng_.below(20) == 0 ? rng_.below(4) : 0),
                    .first = static_cast<std::uint8_t>(rng_.below(3)),
                    .priorities = static_cast<std::uint32_t>(rng_.one_in(9) ? rng_.below(3) : 0)},
                   e);
  }

  RawWriter writer_;
  Rng& rng_;
  std::array<std::uint64_t, kEnvironments> published_{};
};

/// Draws a batch, and overwrites its memory while the host draws the next one into it. Then updates
/// priorities under what are keys no more.
void draw_and_scribble(GuestSampler& sampler, Rng& rng, std::uint64_t seed) {
  constexpr std::size_t kItems = 200;
  const SampleResult result = sampler.sample(
      kItems, {.draws = rng.one_in(2) ? Draws::Epoch : Draws::Stratified, .timeout = 20ms});
  if (!result) {
    return;
  }
  const auto keys = result->keys();
  auto* const memory = reinterpret_cast<std::byte*>(const_cast<ItemKey*>(keys.data()));
  const std::jthread scribbler([&](const std::stop_token& stop) {
    Rng random(seed);
    while (!stop.stop_requested()) {
      scribble(memory, keys.size_bytes(), random);
    }
  });
  (void)sampler.sample(kItems, {.draws = Draws::Epoch, .timeout = 20ms});
  const std::vector<float> priorities(kItems, 1.0F);
  try {
    (void)sampler.update_priorities(std::span(reinterpret_cast<const ItemKey*>(memory), kItems),
                                    priorities);
  } catch (const std::invalid_argument&) {  // The keys are invalid for this buffer.
  }
}

/// Guests in other processes overwrite random words of the memory that they share with the host.
/// The host and its other guests must not notice.
TEST(HostileMemory, OverwrittenAtRandomHarmsNoOtherGuest) {
  const std::string address = "@reprise-scribble-" + std::to_string(::getpid());
  const std::size_t rounds = scaled(60, 6);
  Forked writers([&] {
    Rng rng(11);
    for (std::size_t round = 0; round < rounds; ++round) {
      ScribblingWriter(address, rng).run();
    }
  });
  Forked samplers([&] {
    Rng rng(12);
    for (std::size_t round = 0; round < rounds; ++round) {
      Guest guest = attach(address, {.timeout = 60s});
      GuestSampler sampler = guest.sampler();
      for (int i = 0; i < 20; ++i) {
        draw_and_scribble(sampler, rng, round);
      }
    }
  });
  NumberedBuffer line(SmallOptions{
      .capacity_steps = 500, .window = Transitions{.n_step = 3}, .max_writers = 16, .shards = 2});
  Hosted hosted(line.replay, {.address = address, .ring_steps = 16});
  hosted.serve();
  {
    Guest guest = attach(address);
    Writer writer = guest.writer();
    Sampler sampler = line.replay.sampler();
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < scaled(4'000, 400); ++i, ++number) {
      ASSERT_EQ(line.append(writer, number, number % 50 == 49 ? End::Terminated : End::Continue),
                CommitStatus::Committed);
      if (i >= 3) {  // The first item exists after three steps; later steps may add none.
        ASSERT_TRUE(sampler.sample(16, {.timeout = 60s}));
      }
    }
    (void)writers.join();
    (void)samplers.join();
    number = 0;
    for (; number < 600; ++number) {  // Evicts all other items.
      ASSERT_EQ(line.append(writer, number), CommitStatus::Committed);
    }
  }
  yield_while([&] { return line.replay.stats().guests != 0 || line.replay.stats().writers != 0; });
  expect_steps_add_up(line.replay);
  EXPECT_EQ(line.replay.size(), 500U);
  EXPECT_EQ(line.numbers(), number_range(100, 600));
}

TEST(GuestRing, WakesItsGuestAlsoForTheRoomOfACutWithoutAStep) {
  HostileFixture world;
  const RawWriter raw(world.hosted.address());
  raw.header(0, {.kind = StepHeader::Kind::Step, .first = 1});
  raw.words().publish(1);
  yield_while([&] { return raw.words().consumed() != 1; });
  process::RingLayout::shared(raw.memory).waiting.begin();
  raw.header(1, {.kind = StepHeader::Kind::Cut});
  raw.words().publish(2);
  yield_while([&] { return raw.words().consumed() != 2; });
  world.hosted.thread = {};  // The host has sent its messages when its thread ends.
  raw.connection->receive();
  const auto message = raw.connection->channel.next();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->kind, process::MessageKind::Wake);
}

}  // namespace
}  // namespace reprise::test
