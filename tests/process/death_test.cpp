#include "process/forked.hpp"
#include "process/found.hpp"
#include "process/hosted.hpp"
#include "process/lives.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

#include <csignal>
#include <filesystem>

// Tests of guests that are killed, stopped or short-lived, and of hosts that are killed. Each test
// forks its children before its host has a thread, because `Forked` needs that.

namespace reprise::test {
namespace {

std::string unique_address(const char* what) {
  static int number = 0;
  return std::string("@reprise-") + what + "-" + std::to_string(::getpid()) + "-" +
         std::to_string(++number);
}

Options options_for(std::size_t steps) {
  return SmallOptions{
      .capacity_steps = steps,
      .window = Transitions{.n_step = NamedSteps::kNStep, .discount = NamedSteps::kDiscount},
      .selectors = {kRawProportional, Uniform{}},
      .max_writers = 64,
      .chunk_steps = 64};
}

/// Guests that are killed after random delays, a few at a time. For half the writers the delay
/// begins with their first step, so that they append even on a slow machine.
class MortalGuests {
 public:
  /// Steps that one guest appends in each environment.
  static constexpr std::uint64_t kMaxSteps = 3'000;
  static constexpr std::size_t kMaxAlive = 4;

  MortalGuests(std::size_t count, std::uint64_t seed)
      : count_(count), seed_(seed), progress_(count) {}

  enum class Kind : std::uint8_t { Writer, VectorWriter, Sampler };
  [[nodiscard]] static Kind kind(std::uint64_t life) noexcept {
    constexpr std::array kKinds{Kind::Writer, Kind::Writer, Kind::VectorWriter, Kind::Sampler};
    return kKinds[life % kKinds.size()];
  }
  [[nodiscard]] static std::uint64_t environments(std::uint64_t life) noexcept {
    return kind(life) == Kind::Writer         ? 1
           : kind(life) == Kind::VectorWriter ? NamedSteps::kEnvironments
                                              : 0;
  }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] Progress& progress(std::uint64_t life) noexcept { return progress_[life]; }

  /// Runs in a child process: forks every guest, and kills each guest after its delay.
  void run(const std::string& address) {
    Rng rng(seed_);
    using Clock = std::chrono::steady_clock;
    struct Alive {
      Forked guest;
      std::uint64_t life;
      std::optional<Clock::time_point> end;  ///< When to kill the guest, once that is known.
    };
    std::vector<Alive> alive;
    for (std::uint64_t next = 0; next < count_ || !alive.empty();) {
      while (next < count_ && alive.size() < kMaxAlive) {
        alive.push_back({Forked([&] { run_guest(address, next); }), next, {}});
        ++next;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(rng.below(400)));
      const auto now = Clock::now();
      for (Alive& guest : alive) {
        const bool appends_first = environments(guest.life) != 0 && guest.life % 8 < 4;
        if (!guest.end && (!appends_first || progress(guest.life).committed != 0)) {
          guest.end = now + std::chrono::microseconds(rng.below(12'000));
        }
      }
      // The destructor of `Forked` kills.
      std::erase_if(alive, [&](const Alive& guest) { return guest.end && *guest.end <= now; });
    }
  }

 private:
  void run_guest(const std::string& address, std::uint64_t life) {
    Guest guest = attach(address, {.timeout = 60s});
    switch (kind(life)) {
      case Kind::Writer:
        return write(guest, life);
      case Kind::VectorWriter:
        return write_many(guest, life);
      case Kind::Sampler:
        return draw(guest, life);
    }
  }

  void write(Guest& guest, std::uint64_t life) {
    Progress& progress = progress_[life];
    Writer writer = guest.writer();
    for (std::uint64_t step = 0; step < kMaxSteps; ++step) {
      const NamedSteps::Name name{life, 0, step};
      steps_.write(writer, name);
      progress.begun = step + 1;
      progress.wrong =
          writer.commit(NamedSteps::end(name)) != CommitStatus::Committed || progress.wrong;
      progress.committed = step + 1;
    }
    ::pause();
  }

  void write_many(Guest& guest, std::uint64_t life) {
    Progress& progress = progress_[life];
    VectorWriter writers = guest.vector_writer(NamedSteps::kEnvironments);
    std::array<End, NamedSteps::kEnvironments> ends{};
    for (std::uint64_t step = 0; step < kMaxSteps; ++step) {
      for (std::uint64_t e = 0; e < ends.size(); ++e) {
        const NamedSteps::Name name{life, e, step};
        steps_.write(writers[e], name);
        ends[e] = NamedSteps::end(name);
      }
      progress.begun = step + 1;
      progress.wrong = writers.commit(ends) != CommitStatus::Committed || progress.wrong;
      progress.committed = step + 1;
    }
    ::pause();
  }

  void draw(Guest& guest, std::uint64_t life) {
    Progress& progress = progress_[life];
    GuestSampler sampler = guest.sampler({.seed = life});
    for (;;) {
      const SampleResult batch = sampler.sample(32, {.timeout = 5ms});
      for (std::size_t i = 0; batch && i < batch->size(); ++i) {
        progress.wrong = !steps_.error_in(*batch, i).empty() || progress.wrong;
      }
      if (batch) {
        const std::vector<float> priorities(batch->size(), 1.0F + static_cast<float>(life % 7));
        sampler.update_priorities(batch->keys(), priorities);
        ++progress.drawn;
      }
    }
  }

  const NamedSteps steps_;
  const std::size_t count_;
  const std::uint64_t seed_;
  SharedArray<Progress> progress_;
};

/// Draws from the buffer until `stop`, and checks all items.
void draw_and_check(ReplayBuffer& replay, const NamedSteps& named, const std::stop_token& stop) {
  Sampler sampler = replay.sampler({.seed = 9});
  while (!stop.stop_requested()) {
    const SampleResult batch = sampler.sample(64, {.timeout = 10ms});
    for (std::size_t i = 0; batch && i < batch->size(); ++i) {
      ASSERT_EQ(named.error_in(*batch, i), "");
    }
  }
}

TEST(GuestDeath, LosesNoCommittedStepAndLeaksNoResource) {
  const std::size_t kills = scaled(400, 24);
  constexpr std::size_t kAtATime = 100;
  const NamedSteps named;
  std::uint64_t steps_in_all = 0;
  const ProcessResources before = ProcessResources::now();
  for (std::size_t done = 0; done < kills && !testing::Test::HasFatalFailure(); done += kAtATime) {
    const std::string address = unique_address("death");
    MortalGuests lives(std::min(kAtATime, kills - done), done);
    Forked killer([&] { lives.run(address); });
    ReplayBuffer replay(
        named.schema, options_for(kAtATime * MortalGuests::kMaxSteps * NamedSteps::kEnvironments));
    Hosted hosted(replay, {.address = address, .ring_steps = 32});
    hosted.serve();
    {
      std::jthread learner(
          [&](const std::stop_token& stop) { draw_and_check(replay, named, stop); });
      ASSERT_TRUE(killer.join());
    }
    yield_while([&] { return replay.stats().writers != 0 || replay.stats().guests != 0; });
    expect_steps_add_up(replay);
    FoundItems found(replay, named);
    const Stats stats = replay.stats();
    std::uint64_t steps = 0;
    std::uint64_t cut = 0;
    std::uint64_t maybe_cut = 0;
    for (std::uint64_t life = 0; life < lives.count(); ++life) {
      const Progress& progress = lives.progress(life);
      EXPECT_FALSE(progress.wrong) << "life " << life;
      for (std::uint64_t e = 0; e < MortalGuests::environments(life); ++e) {
        const std::uint64_t items = found.steps[{life, e}].size();
        ASSERT_GE(items, progress.committed) << "life " << life << ", environment " << e;
        ASSERT_LE(items, progress.begun);
        ASSERT_NO_FATAL_FAILURE(found.expect_steps(life, e, items));
        steps += items;
        if (items != 0 && NamedSteps::end({life, e, items - 1}) == End::Continue) {
          // If the next step would begin an episode, the guest may have cut this one itself.
          ++(NamedSteps::restarts_episode({life, e, items}) ? maybe_cut : cut);
        }
      }
    }
    EXPECT_EQ(stats.committed_steps, steps);
    EXPECT_EQ(replay.size(), steps) << "each step is an item";
    EXPECT_GE(stats.cut_episodes, cut);
    EXPECT_LE(stats.cut_episodes, cut + maybe_cut);
    EXPECT_LE(stats.dead_guest_steps, steps);
    steps_in_all += steps;
  }
  EXPECT_EQ(ProcessResources::now(), before);
  EXPECT_GT(steps_in_all, kills / 4);
  RecordProperty("kills", static_cast<int>(kills));
  RecordProperty("steps", std::to_string(steps_in_all));
}

void commit_vector_step(const NamedSteps& named, VectorWriter& writers, std::uint64_t step) {
  std::vector<End> ends(writers.size(), End::Continue);
  for (std::uint64_t e = 0; e < writers.size(); ++e) {
    named.write(writers[e], {1, e, step});
  }
  ASSERT_EQ(writers.commit(ends), CommitStatus::Committed);
}

TEST(GuestDeath, CountsTheStepsAndEpisodesThatTheGuestLeft) {
  const NamedSteps named;
  const std::string address = unique_address("counted");
  enum : int { Attached = 1, Go, Done };
  SharedArray<std::atomic<int>> stage;
  Forked guest([&] {
    Guest attached = attach(address, {.timeout = 60s});
    VectorWriter writers = attached.vector_writer(2);
    Writer writer = attached.writer();
    stage->store(Attached);
    yield_while([&] { return stage->load() != Go; });
    for (std::uint64_t step = 0; step < 5; ++step) {
      commit_vector_step(named, writers, step);
    }
    // This episode has no steps, so the buffer does not count it as cut.
    writer.begin_episode();
    stage->store(Done);
    ::pause();
  });
  ReplayBuffer replay(named.schema, options_for(1'000));
  Hosted hosted(replay, {.address = address});
  hosted.serve();
  yield_while([&] { return stage->load() != Attached; });
  EXPECT_EQ(replay.stats().guests, 1U);
  EXPECT_EQ(replay.stats().writers, 3U);
  hosted.thread = {};
  stage->store(Go);
  yield_while([&] { return stage->load() != Done; });
  guest.kill();
  hosted.serve();
  yield_while([&] { return replay.stats().writers != 0 || replay.stats().guests != 0; });
  const Stats stats = replay.stats();
  EXPECT_EQ(stats.committed_steps, 10U);
  EXPECT_EQ(stats.dead_guest_steps, 10U);
  EXPECT_EQ(stats.cut_episodes, 2U);
  EXPECT_EQ(replay.size(), 10U);
}

/// Each guest appends 20 steps and exits, every second guest without a message to the host.
TEST(GuestDeath, OfManyShortLivedGuestsLosesNoStepAndLeaksNoResource) {
  const std::size_t count = scaled(600, 40);
  constexpr std::uint64_t kSteps = 20;
  const NamedSteps named;
  const std::string address = unique_address("short");
  SharedArray<std::atomic<std::uint64_t>> wrong;
  const ProcessResources before = ProcessResources::now();
  {
    Forked maker([&] {
      const auto begin = std::chrono::steady_clock::now();
      std::vector<Forked> alive;
      for (std::uint64_t life = 0; life < count; ++life) {
        alive.emplace_back([&, life] {
          Guest guest = attach(address, {.timeout = 60s});
          std::optional<Writer> writer = guest.writer();
          for (std::uint64_t step = 0; step < kSteps; ++step) {
            const NamedSteps::Name name{2 * life + 1, 0, step};
            named.write(*writer, name);
            *wrong += writer->commit(NamedSteps::end(name)) != CommitStatus::Committed ? 1 : 0;
          }
          if (life % 2 == 0) {
            ::_exit(0);
          }
        });
        if (alive.size() == 8) {
          *wrong += alive.front().join() ? 0 : 1;
          alive.erase(alive.begin());
        }
        std::this_thread::sleep_until(begin + life * 5ms);  // So 200 guests start in a second.
      }
      for (Forked& guest : alive) {
        *wrong += guest.join() ? 0 : 1;
      }
    });
    ReplayBuffer replay(named.schema, options_for(count * kSteps));
    Hosted hosted(replay, {.address = address});
    hosted.serve();
    ASSERT_TRUE(maker.join());
    yield_while([&] { return replay.stats().writers != 0 || replay.stats().guests != 0; });
    EXPECT_EQ(*wrong, 0U);
    EXPECT_EQ(replay.size(), count * kSteps);
    FoundItems found(replay, named);
    std::uint64_t cut = 0;
    for (std::uint64_t life = 0; life < count; ++life) {
      ASSERT_NO_FATAL_FAILURE(found.expect_steps(2 * life + 1, 0, kSteps));
      // An even guest has not ended its last episode, unless the last step did.
      if (life % 2 == 0 && NamedSteps::end({2 * life + 1, 0, kSteps - 1}) == End::Continue) {
        ++cut;
      }
    }
    EXPECT_EQ(replay.stats().cut_episodes, cut);
  }
  EXPECT_EQ(ProcessResources::now(), before);
}

TEST(StoppedGuest, BlocksNoOtherGuestAndNotTheHost) {
  const NamedSteps named;
  const std::string address = unique_address("stopped");
  SharedArray<Progress> progress(3);
  const auto writes = [&](std::uint64_t life) {
    return [&, life] {
      Guest guest = attach(address, {.timeout = 60s});
      Writer writer = guest.writer();
      for (std::uint64_t step = 0;; ++step) {
        const NamedSteps::Name name{life, 0, step % 0xffffff};
        named.write(writer, name);
        progress[life].wrong = writer.commit(NamedSteps::end(name)) != CommitStatus::Committed;
        ++progress[life].committed;
      }
    };
  };
  Forked stopped(writes(0));
  Forked other(writes(1));
  Forked learner([&] {
    Guest guest = attach(address, {.timeout = 60s});
    GuestSampler sampler = guest.sampler();
    for (;;) {
      progress[2].drawn += sampler.sample(32) ? 1 : 0;
    }
  });
  ReplayBuffer replay(named.schema, options_for(20'000));
  Hosted hosted(replay, {.address = address, .ring_steps = 64});
  hosted.serve();
  Sampler sampler = replay.sampler();
  // Waits until this writer has appended more steps, the learner has drawn, and the host can draw.
  const auto expect_progress = [&](std::uint64_t writer, std::uint64_t steps) {
    const std::uint64_t committed = progress[writer].committed + steps;
    const std::uint64_t drawn = progress[2].drawn + 20;
    yield_while(
        [&] { return progress[writer].committed < committed || progress[2].drawn < drawn; });
    ASSERT_TRUE(sampler.sample(32));
  };
  expect_progress(0, 1'000);
  for (std::size_t i = 0; i < scaled(20, 3); ++i) {
    stopped.stop();
    expect_progress(1, 2'000);
    stopped.signal(SIGCONT);
    expect_progress(0, 200);
    // A learner may be stopped in the middle of a draw, and must not block other processes either.
    learner.stop();
    const std::uint64_t committed = progress[1].committed + 2'000;
    yield_while([&] { return progress[1].committed < committed; });
    ASSERT_TRUE(sampler.sample(32));
    learner.signal(SIGCONT);
  }
  for (Progress& of_guest : progress) {
    EXPECT_FALSE(of_guest.wrong);
  }
}

/// How a host ends. A child that it has forked may live on with copies of the host's sockets.
enum class HostEnd : std::uint8_t { Killed, KilledBesideItsChild, DestroyedBesideItsChild };

/// A process in which `Host::run` serves a buffer whose limiter soon holds all calls. Once `child`
/// is -1, the process forks a child, and stores the child's id there.
Forked fork_host(const std::string& address, HostEnd how, SharedArray<std::atomic<pid_t>>& child) {
  return Forked([&child, address, how] {
    const NamedSteps named;
    Options options = options_for(1'000);
    options.rate_limiter =
        SampleToInsertRatio{.samples_per_insert = 1.0, .min_size = 10, .error_buffer = 20.0};
    ReplayBuffer replay(named.schema, options);
    std::optional<Hosted> hosted;
    hosted.emplace(replay, HostOptions{.address = address, .ring_steps = 8});
    hosted->serve();
    yield_while([&] { return *child != -1; });
    const pid_t forked = ::fork();
    if (forked == 0) {
      ::pause();
    }
    if (how == HostEnd::DestroyedBesideItsChild) {
      hosted.reset();
    }
    *child = forked;
    ::pause();
  });
}

/// Lets a guest's writer wait for room, or its sampler for items, until `kill` ends the host.
/// Expects the call to report that the buffer is closed.
void expect_closed_once_the_host_dies(const std::string& address, bool writes,
                                      const std::function<void()>& kill) {
  const NamedSteps named;
  Guest guest = attach(address, {.timeout = 60s});
  std::atomic<bool> waits{false};
  bool closed = false;
  std::jthread waiting([&] {
    if (writes) {
      Writer writer = guest.writer({.timeout = 100ms});
      CommitStatus status = CommitStatus::Committed;
      for (std::uint64_t step = 0; status == CommitStatus::Committed;) {
        const NamedSteps::Name name{1, 0, step};
        named.write(writer, name);
        status = writer.commit(NamedSteps::end(name));
        if (status == CommitStatus::TimedOut && !waits) {
          waits = true;
          writer.set_timeout(kNoTimeout);
          status = writer.commit(NamedSteps::end(name));
        }
        ++step;
      }
      closed = status == CommitStatus::Closed;
    } else {
      GuestSampler sampler = guest.sampler();
      waits = true;
      closed = sampler.sample(9).status().code == SampleStatus::Code::Closed;
    }
  });
  yield_while([&] { return !waits; });
  std::this_thread::sleep_for(50ms);  // Most likely, the call sleeps after this.
  kill();
  waiting.join();
  EXPECT_TRUE(closed);
  EXPECT_THROW((void)guest.writer(), std::runtime_error);
  EXPECT_TRUE(guest.closed());
}

TEST(HostAddress, ThatIsAFileIsRemovedWithTheHost) {
  const ScratchDirectory scratch;
  const std::string address = scratch.path() + "/host";
  {
    NumberedBuffer line;
    Hosted hosted(line.replay, {.address = address});
    hosted.serve();
    EXPECT_EQ(attach(address).stats().guests, 1U);
    EXPECT_THROW(Host(line.replay, {.address = address}), std::system_error);
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  EXPECT_THROW((void)attach(address, {.timeout = 0s}), std::system_error);
}

TEST(HostDeath, EndsTheWaitsOfItsGuests) {
  for (const bool writes : {true, false}) {
    for (const HostEnd how :
         {HostEnd::Killed, HostEnd::KilledBesideItsChild, HostEnd::DestroyedBesideItsChild}) {
      const std::string address = unique_address("host");
      SharedArray<std::atomic<pid_t>> child;
      Forked host = fork_host(address, how, child);
      expect_closed_once_the_host_dies(address, writes, [&] {
        if (how != HostEnd::Killed) {
          *child = -1;
          yield_while([&] { return *child == -1; });
        }
        if (how != HostEnd::DestroyedBesideItsChild) {
          host.kill();
        }
      });
      if (*child > 0) {
        ::kill(*child, SIGKILL);
      }
    }
  }
}

}  // namespace
}  // namespace reprise::test
