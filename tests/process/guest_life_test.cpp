#include "buffer/buffer_core.hpp"
#include "process/forked.hpp"
#include "process/hosted.hpp"
#include "process/raw_guest.hpp"
#include "testing/faults/child.hpp"
#include "testing/faults/lock_holder.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

#include <unistd.h>

#include <csignal>

namespace reprise::test {
namespace {

TEST(GuestSampler, CanBeStoppedWhileItsHostIsStoppedAndDrawsAgainLater) {
  const std::string address = "@reprise-test-" + std::to_string(::getpid());
  const Forked host([&] {
    NumberedBuffer line;
    Hosted hosted(line.replay, {.address = address});
    line.append_many(0, 20);
    hosted.host.run({});
  });
  Guest guest = attach(address);
  GuestSampler sampler = guest.sampler();
  ASSERT_TRUE(sampler.sample(4));
  host.stop();
  std::stop_source stop;
  std::jthread later([&] {
    std::this_thread::sleep_for(20ms);
    stop.request_stop();
  });
  EXPECT_EQ(sampler.sample(4, {.stop = stop.get_token()}).status().code,
            SampleStatus::Code::Stopped);
  host.signal(SIGCONT);
  const NumberedBuffer line;  // For the handles of its fields alone.
  for (const std::size_t n : {4U, 64U, 5U}) {
    const auto batch = require_batch(sampler.sample(n));
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(batch->now(line.action)[i], batch->now(line.id)[i]);
    }
  }
}

TEST(HostEnd, IsNoticedByAWriterOfFewSteps) {
  NumberedBuffer line;
  std::optional<Hosted> hosted(std::in_place, line.replay, HostOptions{.ring_steps = 1024});
  hosted->serve();
  Guest guest = attach(hosted->address());
  Writer writer = guest.writer();
  line.append_many(writer, 0, 3);
  hosted.reset();
  CommitStatus status = CommitStatus::Committed;
  for (std::uint64_t i = 3; i < 200 && status == CommitStatus::Committed; ++i) {
    status = line.append(writer, i);
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(status, CommitStatus::Closed);
}

TEST(HostEnd, IsNoticedByGuestsOnlyWhenNobodyCanAttachAnyMore) {
  NumberedBuffer line;
  Hosted hosted(line.replay);
  hosted.serve();
  std::vector<process::Channel> guests;
  // The host needs a moment to hang up on many guests, in which another guest might attach.
  for (int i = 0; i < 100; ++i) {
    guests.push_back(raw_channel(hosted.address()));
    guests.back().send(process::MessageKind::Hello, process::bytes_of(process::Hello()));
    ASSERT_TRUE(answer(guests.back()));
  }
  line.replay.close();
  EXPECT_FALSE(answer(guests.front()));
  try {
    (void)attach(hosted.address(), {.timeout = 0s});
    ADD_FAILURE() << "a guest attached to a closed host";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::connection_refused);
  }
}

/// A host that closes hangs up its listener before its guests, so a guest may still open another
/// connection, which the host never serves.
TEST(HostEnd, IsNoticedByACallWhoseNewConnectionIsHungUp) {
  for (const bool accepts : {false, true}) {
    const ScratchDirectory scratch;
    const std::string address = scratch.path() + "/host";
    NumberedBuffer line;
    Hosted hosted(line.replay, {.address = address});
    hosted.serve();
    Guest guest = attach(address);
    ASSERT_TRUE(std::filesystem::remove(address));
    process::Listener closing(address);
    std::jthread hangs_up;
    if (accepts) {
      hangs_up = std::jthread([&] { yield_while([&] { return !closing.accept().valid(); }); });
    } else {
      closing.hang_up();
    }
    expect_refusal<std::runtime_error>([&] { (void)guest.sampler(); },
                                       {"Guest: it is closed, or its host is gone"});
    EXPECT_TRUE(guest.closed());
  }
}

TEST(HostStop, TakesAllStepsThatGuestsHaveCommitted) {
  SharedNumberedBuffer line(SmallOptions{.capacity_steps = 2'000}, {.ring_steps = 1024});
  Writer writer = line.guest.writer();
  line.hosted.thread = {};
  line.append_many(writer, 0, 1'000);
  std::stop_source stopped;
  stopped.request_stop();
  line.hosted.host.run(stopped.get_token());
  EXPECT_EQ(line.replay.stats().committed_steps, 1'000U);
}

/// The host needs a chunk, and has to wait for the thread that holds the shard's lock.
TEST(HostStop, TakesAllCommittedStepsAlsoIfItHasToWaitForALock) {
  SharedNumberedBuffer line(SmallOptions{.capacity_steps = 200, .chunk_steps = 16},
                            {.ring_steps = 1024});
  Writer writer = line.guest.writer();
  line.hosted.thread = {};
  line.append_many(writer, 0, 1'000);
  const auto core = core_of(line.replay);
  LockHolder holder(core->shards()[0].mutex);
  std::atomic<bool> ended = false;
  std::jthread host([&] {
    std::stop_source stopped;
    stopped.request_stop();
    line.hosted.host.run(stopped.get_token());
    ended = true;
  });
  yield_while([&] { return !ended && core->shards().writers_for_chunk.stats().waiting_now == 0; });
  holder.release();
  host.join();
  EXPECT_EQ(line.replay.stats().committed_steps, 1'000U);
}

TEST(HostAddress, IsTheSameFileAfterAChangeOfTheWorkingDirectory) {
  const ScratchDirectory scratch;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  {
    NumberedBuffer line;
    Hosted hosted(line.replay, {.address = "host"});
    hosted.serve();
    Guest guest = attach("host");
    std::filesystem::current_path(before);
    EXPECT_NO_THROW((void)guest.writer());
    EXPECT_FALSE(attach(hosted.address()).closed());
  }
  EXPECT_FALSE(std::filesystem::exists(scratch.path() + "/host"));
}

TEST(GuestVectorWriter, EndsTheEpisodeOfAWriterThatIsMovedOutAndDestroyed) {
  SharedNumberedBuffer line(SmallOptions{.window = Transitions{.n_step = 5}});
  VectorWriter writers = line.guest.vector_writer(3);
  writers[1].now(line.id) = 0;  // A vector writer has begun the episode already.
  line.append_many(writers[1], 0, 10);
  { const Writer gone = std::move(writers[1]); }
  yield_while([&] { return line.replay.size() < 10; });
  EXPECT_EQ(line.numbers(), number_range(0, 10));
}

TEST(GuestFork, IsRefusedInTheChildWhichMayAttachItself) {
  SharedNumberedBuffer line;
  line.append_many(0, 20);
  Writer writer = line.guest.writer();
  line.append_many(writer, 0, 3);
  GuestSampler sampler = line.guest.sampler();
  ASSERT_TRUE(sampler.sample(4));
  const ::pid_t maker = ::getpid();
  const std::string address = line.hosted.address();
  expect_in_child([&] {
    const auto refused = [&](const char* what, auto&& call) {
      return describe_unless_refused<std::logic_error>(what, maker, call);
    };
    std::string complaints = refused("begin_episode", [&] { writer.begin_episode(); }) +
                             refused("sample", [&] { (void)sampler.sample(4); }) +
                             refused("stats", [&] { (void)line.guest.stats(); }) +
                             refused("writer", [&] { (void)line.guest.writer(); }) +
                             refused("update", [&] { line.guest.update_priorities({}, {}); });
    line.guest.close();
    if (line.guest.closed()) {
      complaints += "close in a child closed the parent's guest\n";
    }
    Guest own = attach(address);
    Writer own_writer = own.writer();
    return complaints + (line.append(own_writer, 100) == CommitStatus::Committed
                             ? ""
                             : "a child that attaches cannot append\n");
  });
  EXPECT_EQ(line.append(writer, 3), CommitStatus::Committed);
  EXPECT_TRUE(sampler.sample(4));
  EXPECT_FALSE(line.guest.closed());
}

}  // namespace
}  // namespace reprise::test
