#include "process/hosted.hpp"
#include "testing/faults/child.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

namespace reprise::test {
namespace {

using namespace std::chrono_literals;

/// Whole words between two processes.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void say(::pid_t word) const { EXPECT_EQ(::write(ends_[1], &word, sizeof(word)), ssize_t{4}); }
  [[nodiscard]] ::pid_t hear() const {
    ::pid_t word = 0;
    EXPECT_EQ(::read(ends_[0], &word, sizeof(word)), ssize_t{4});
    return word;
  }

 private:
  std::array<int, 2> ends_{};
};

/// Starters of processes by fork, such as Python's multiprocessing, leave copies of the host's
/// sockets in each child.
TEST(GuestLife, EndsWithItsHostWhoseForksLiveOn) {
  const std::string address = "@reprise-test-" + std::to_string(::getpid());
  const Pipe to_host;
  const Pipe from_host;
  const ::pid_t host = ::fork();
  ASSERT_GE(host, 0);
  if (host == 0) {
    Line line;
    Hosted hosted(line.replay, {.address = address, .ring_steps = 1024});
    hosted.serve();
    line.append_many(0, 20);
    static_cast<void>(to_host.hear());
    const ::pid_t fork = ::fork();
    if (fork != 0) {
      from_host.say(fork);
    }
    for (;;) {
      ::pause();
    }
  }
  Guest guest = attach(address);
  Line line;  // For the handles of its fields.
  Writer writer = guest.writer();
  GuestSampler sampler = guest.sampler();
  ASSERT_TRUE(sampler.sample(4));
  to_host.say(1);
  const ::pid_t fork = from_host.hear();
  EXPECT_FALSE(guest.closed());
  ::kill(host, SIGKILL);
  EXPECT_EQ(sampler.sample(1'000).status().code, SampleStatus::Code::Closed);
  EXPECT_TRUE(guest.closed());
  CommitStatus status = CommitStatus::Committed;
  for (std::uint64_t i = 0; status == CommitStatus::Committed; ++i) {
    status = line.append(writer, i);
  }
  EXPECT_EQ(status, CommitStatus::Closed);
  ::kill(fork, SIGKILL);
  EXPECT_EQ(::waitpid(host, nullptr, 0), host);
}

TEST(GuestLife, IsSeenToEndByAWriterOfFewSteps) {
  Line line;
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

TEST(GuestLife, LeavesTheBufferWhatItHasCommittedWhenItsHostStops) {
  Line line(Small{.capacity_steps = 2'000});
  Hosted hosted(line.replay, {.ring_steps = 1024});
  hosted.serve();
  Guest guest = attach(hosted.address());
  Writer writer = guest.writer();
  hosted.thread = {};
  line.append_many(writer, 0, 1'000);
  std::stop_source stopped;
  stopped.request_stop();
  hosted.host.run(stopped.get_token());
  EXPECT_EQ(line.replay.stats().committed_steps, 1'000U);
}

TEST(GuestLife, OfOneOfSeveralWritersEndsItsEpisode) {
  Line line(Small{.window = Transitions{.n_step = 5}});
  Hosted hosted(line.replay);
  hosted.serve();
  Guest guest = attach(hosted.address());
  VectorWriter writers = guest.vector_writer(3);
  writers[1].now(line.id) = 0;  // A vector writer begins episodes by itself.
  line.append_many(writers[1], 0, 10);
  { const Writer gone = std::move(writers[1]); }
  yield_while([&] { return line.replay.size() < 10; });
  EXPECT_EQ(line.numbers(), numbers_between(0, 10));
}

TEST(GuestLife, IsNotThatOfAFork) {
  Line line;
  Hosted hosted(line.replay);
  hosted.serve();
  line.append_many(0, 20);
  Guest guest = attach(hosted.address());
  Writer writer = guest.writer();
  line.append_many(writer, 0, 3);
  GuestSampler sampler = guest.sampler();
  ASSERT_TRUE(sampler.sample(4));
  const ::pid_t maker = ::getpid();
  const std::string address = hosted.address();
  expect_of_child([&] {
    const auto refused = [&](const char* what, auto&& call) {
      return unless_refused<std::logic_error>(what, maker, call);
    };
    std::string complaints = refused("begin_episode", [&] { writer.begin_episode(); }) +
                             refused("sample", [&] { static_cast<void>(sampler.sample(4)); }) +
                             refused("stats", [&] { static_cast<void>(guest.stats()); }) +
                             refused("writer", [&] { static_cast<void>(guest.writer()); }) +
                             refused("update", [&] { guest.update_priorities({}, {}); });
    guest.close();
    if (guest.closed()) {
      complaints += "close in a child closed something\n";
    }
    Guest own = attach(address);
    Writer own_writer = own.writer();
    return complaints + (line.append(own_writer, 100) == CommitStatus::Committed
                             ? ""
                             : "a child that attaches cannot append\n");
  });
  EXPECT_EQ(line.append(writer, 3), CommitStatus::Committed);
  EXPECT_TRUE(sampler.sample(4));
  EXPECT_FALSE(guest.closed());
}

}  // namespace
}  // namespace reprise::test
