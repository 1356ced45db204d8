#include "buffer/buffer_core.hpp"
#include "process/hosted.hpp"
#include "process/raw_guest.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/test.hpp"

// Guests wait in one line with calls of the host: who has waited longest passes first (I12).

namespace reprise::test {
namespace {

using process::MessageKind;

/// Options under which each step allows one draw of `batch` items, and each such draw allows one
/// step.
Options alternating_options(double batch) {
  return SmallOptions{.capacity_steps = 10'000,
                      .rate_limiter = SampleToInsertRatio{
                          .samples_per_insert = batch, .min_size = 1, .error_buffer = 8.0 * batch}};
}

TEST(GuestTurns, ASamplerOfAGuestPassesBetweenSamplersOfTheHost) {
  constexpr std::size_t kBatch = 4;
  NumberedBuffer line(alternating_options(kBatch));
  Hosted hosted(line.replay);
  hosted.serve();
  line.append(0);
  Sampler first = line.replay.sampler();
  Sampler last = line.replay.sampler();
  while (first.sample(kBatch, kNoWait)) {
  }
  process::Channel channel = raw_channel(hosted.address());
  channel.send(MessageKind::Hello,
               process::bytes_of(process::Hello{.purpose = process::Purpose::Sampler}));
  ASSERT_TRUE(answer(channel));
  const auto& turns = core_of(line.replay)->sampler_turns;
  const auto waiting = [&] { return line.replay.stats().samplers_for_limiter.waiting_now; };
  for (std::uint64_t round = 1; round <= 20; ++round) {
    std::jthread before([&] { EXPECT_TRUE(first.sample(kBatch)); });
    yield_while([&] { return waiting() != 1; });
    channel.send(MessageKind::Sample,
                 process::bytes_of(process::SampleCall{
                     .number = round, .items = kBatch, .timeout_ns = kNoTimeout.count()}));
    // When the host answers this message, the draw before it waits in line.
    channel.send(MessageKind::AskStats, process::bytes_of(round));
    ASSERT_EQ(answer(channel)->kind, MessageKind::Stats);
    std::jthread behind([&] { EXPECT_TRUE(last.sample(kBatch)); });
    yield_while([&] { return waiting() != 2; });
    line.append(3 * round);
    before.join();
    line.append(3 * round + 1);
    const auto message = answer(channel);
    const auto drawn = process::value_of<process::SampleAnswer>(message->bytes);
    ASSERT_TRUE(drawn);
    EXPECT_EQ(drawn->status.code, SampleStatus::Code::Ok);
    EXPECT_EQ(waiting(), 1U) << "only the last call waits";
    line.append(3 * round + 2);
  }
  EXPECT_FALSE(turns.anybody());
}

TEST(GuestTurns, AWriterOfAGuestPassesBetweenWritersOfTheHost) {
  NumberedBuffer line(alternating_options(1.0));
  Hosted hosted(line.replay, {.ring_steps = 8});
  hosted.serve();
  Writer first = line.replay.writer();
  Writer last = line.replay.writer();
  RawWriter guest(hosted.address());
  Sampler sampler = line.replay.sampler();
  first.set_timeout(0ns);
  line.append_until_held(first);
  first.set_timeout(kNoTimeout);
  const auto held = [&] {
    return process::RingLayout::shared(guest.memory).held.load(base::Order::Relaxed) ==
           static_cast<std::uint32_t>(process::HoldReason::ByLimiter);
  };
  const auto waiting = [&] { return line.replay.stats().writers_for_limiter.waiting_now; };
  for (std::uint64_t round = 0; round < 20; ++round) {
    std::jthread before([&] { EXPECT_EQ(line.append(first, round), CommitStatus::Committed); });
    yield_while([&] { return waiting() != 1; });
    guest.header(round, {.first = round == 0 ? std::uint8_t{1} : std::uint8_t{0}});
    guest.words().publish(round + 1);
    yield_while([&] { return !held(); });
    std::jthread behind([&] { EXPECT_EQ(line.append(last, round), CommitStatus::Committed); });
    yield_while([&] { return waiting() != 2; });
    ASSERT_TRUE(sampler.sample(1));
    before.join();
    ASSERT_TRUE(sampler.sample(1));
    yield_while([&] { return guest.words().consumed() <= round; });
    EXPECT_EQ(waiting(), 1U) << "only the last call waits";
    ASSERT_TRUE(sampler.sample(1));
  }
}

}  // namespace
}  // namespace reprise::test
