#include "process/forked.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace reprise::test {
namespace {

std::jthread run(Autosave& autosave) {
  return std::jthread([&](std::stop_token stop) { autosave.run(std::move(stop)); });
}

void wait_until(const std::function<bool()>& holds) {
  while (!holds()) {
    std::this_thread::sleep_for(1ms);
  }
}

/// The numbers of all steps in the buffer, ascending.
std::vector<std::uint64_t> numbers_in(NumberedBuffer& line) {
  Sampler sampler = line.replay.sampler();
  const SampleResult all = sampler.sample(line.replay.size(), {.draws = Draws::Epoch});
  return sorted({all->now(line.id).begin(), all->now(line.id).end()});
}

TEST(Autosave, SavesWhatIsNewUntilItIsStopped) {
  const ScratchDirectory directory;
  NumberedBuffer line(SmallOptions{.capacity_steps = 1000});
  Autosave autosave(line.replay, directory.path(), {.every = 1ms});
  EXPECT_EQ(autosave.status().last.manifest, 0U);
  {
    const std::jthread thread = run(autosave);
    line.append_many(0, 100);
    EXPECT_LE(line.replay.stats().unsaved_steps, 100U);
    wait_until([&] { return line.replay.stats().unsaved_steps == 0; });
  }
  const std::uint64_t saves = autosave.status().saves;
  EXPECT_GT(saves, 0U);
  std::stop_source stopped;
  stopped.request_stop();
  autosave.run(stopped.get_token());
  EXPECT_EQ(autosave.status().saves, saves) << "nothing is new";
  line.append_many(100, 50);
  EXPECT_EQ(line.replay.stats().unsaved_steps, 50U);
  autosave.run(stopped.get_token());
  EXPECT_EQ(autosave.status().saves, saves + 1);
  EXPECT_EQ(line.replay.stats().unsaved_steps, 0U);
  EXPECT_EQ(autosave.status().failures, 0U);
  LoadResult loaded = ReplayBuffer::load(directory.path());
  EXPECT_EQ(loaded.buffer.size(), 150U);
  EXPECT_EQ(loaded.buffer.stats().unsaved_steps, 0U);
}

TEST(Autosave, SavesAlsoWhatNoStatisticCounts) {
  const ScratchDirectory directory;
  Schema schema;
  const auto id = schema.observation<float>("id");
  const auto value = schema.mutable_column<float>("value");
  (void)schema.version("version");
  ReplayBuffer replay(schema, SmallOptions{.rate_limiter = SampleToInsertRatio{}});
  Writer writer = replay.writer();
  writer.begin_episode();
  writer.now(id) = 0.0F;
  writer.next(id) = 1.0F;
  writer.now(value) = 0.0F;
  ASSERT_EQ(writer.commit(), CommitStatus::Committed);
  const ItemKey key = as_lvalue(replay.sampler()).sample(1)->keys()[0];
  Autosave autosave(replay, directory.path());
  std::stop_source stopped;
  stopped.request_stop();
  autosave.run(stopped.get_token());
  std::uint64_t saves = 1;
  for (const auto& change : std::vector<std::function<void()>>{
           [&] {
             (void)replay.update({&key, 1}, value, std::array{5.0F});
           },
           [&] { replay.selector().reset(2.0F); },
           [&] { replay.selector().decay(0.5F); },
           [&] { replay.selector().set_alpha(0.5F); },
           [&] { replay.set_samples_per_insert(2.0); },
           [&] { replay.set_version(3); },
       }) {
    autosave.run(stopped.get_token());
    EXPECT_EQ(autosave.status().saves, saves) << "nothing is new";
    change();
    autosave.run(stopped.get_token());
    EXPECT_EQ(autosave.status().saves, ++saves);
  }
  replay.set_version(3);
  const ItemKey stale = ItemKey::make(key.slot(), key.generation() + 1, key.tag());
  (void)replay.update({&stale, 1}, value, std::array{5.0F});
  autosave.run(stopped.get_token());
  EXPECT_EQ(autosave.status().saves, saves) << "nothing has changed";
}

TEST(Autosave, TellsWhyASaveFailedAndTriesAgain) {
  const ScratchDirectory directory;
  const std::filesystem::path parent = std::filesystem::path(directory.path()) / "parent";
  std::ofstream(parent) << "a file, in which there is no directory";
  NumberedBuffer line;
  line.append_many(0, 30);
  Autosave autosave(line.replay, parent / "autosave", {.every = 1ms});
  const std::jthread thread = run(autosave);
  wait_until([&] { return autosave.status().failures >= 2; });
  EXPECT_NE(autosave.status().problem, "");
  EXPECT_EQ(autosave.status().saves, 0U);
  EXPECT_EQ(line.replay.stats().unsaved_steps, 30U);
  std::filesystem::remove(parent);
  std::filesystem::create_directory(parent);
  wait_until([&] { return autosave.status().saves >= 1; });
  EXPECT_EQ(autosave.status().problem, "");
  EXPECT_EQ(ReplayBuffer::load(parent / "autosave").buffer.size(), 30U);
}

TEST(Autosave, OfAFullDiskGoesOnOnceThereIsRoom) {
  const ScratchDirectory directory;
  Forked child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    ::rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    const ::rlimit room = limit;
    limit.rlim_cur = 100;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    NumberedBuffer line;
    line.append_many(0, 30);
    Autosave autosave(line.replay, directory.path(), {.every = 1ms});
    const std::jthread thread = run(autosave);
    wait_until([&] { return autosave.status().failures >= 2; });
    if (autosave.status().problem.find("File too large") == std::string::npos) {
      throw std::runtime_error(autosave.status().problem);
    }
    ::setrlimit(RLIMIT_FSIZE, &room);
    wait_until([&] { return autosave.status().saves >= 1; });
  });
  EXPECT_TRUE(child.join());
  EXPECT_EQ(ReplayBuffer::load(directory.path()).buffer.size(), 30U);
}

TEST(Autosave, WhatIsToldToBeSavedIsThereAfterAKillAtAnyMoment) {
  constexpr std::size_t kCapacity = 20'000;
  Rng rng(11);
  const std::size_t rounds = scaled(50, 10);
  for (std::size_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const ScratchDirectory directory;
    SharedArray<std::atomic<std::uint64_t>> told;
    Forked child([&] {
      NumberedBuffer line(SmallOptions{.capacity_steps = kCapacity});
      Autosave autosave(line.replay, directory.path(), {.every = 1ms});
      const std::jthread thread = run(autosave);
      const std::jthread teller([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          const Stats stats = line.replay.stats();
          *told = stats.committed_steps - stats.unsaved_steps;
        }
      });
      for (std::uint64_t i = 0; i < kCapacity; ++i) {
        line.append(i, i % 7 == 6 ? End::Terminated : End::Continue);
        if (i % 50 == 0) {
          std::this_thread::sleep_for(100us);
        }
      }
      std::this_thread::sleep_for(1h);
    });
    wait_until([&] { return *told != 0; });
    std::this_thread::sleep_for(std::chrono::microseconds(rng.below(20'000)));
    child.kill();
    NumberedBuffer there(SmallOptions{.capacity_steps = kCapacity});
    there.replay = std::move(ReplayBuffer::load(directory.path()).buffer);
    const std::vector<std::uint64_t> numbers = numbers_in(there);
    ASSERT_GE(numbers.size(), told->load());
    ASSERT_EQ(numbers, number_range(0, numbers.size()));
  }
}

TEST(Autosave, ARunThatGoesOnOwesNoBurst) {
  constexpr std::size_t kBatch = 8;
  constexpr double kErrorBuffer = 32.0;
  const ScratchDirectory directory;
  NumberedBuffer line(
      SmallOptions{.capacity_steps = 1000,
                   .rate_limiter = SampleToInsertRatio{
                       .samples_per_insert = 4.0, .min_size = 10, .error_buffer = kErrorBuffer}});
  Sampler sampler = line.replay.sampler();
  Autosave autosave(line.replay, directory.path(), {.every = 1ms});
  {
    const std::jthread thread = run(autosave);
    for (std::uint64_t i = 0; i < 400; ++i) {
      line.append(i);
      while (sampler.sample(kBatch, {.timeout = 0ns})) {
      }
    }
  }
  // Inserts and samples after the last save are lost alike.
  for (std::uint64_t i = 400; i < 500; ++i) {
    line.append(i);
    while (sampler.sample(kBatch, {.timeout = 0ns})) {
    }
  }
  ReplayBuffer resumed = std::move(ReplayBuffer::load(directory.path()).buffer);
  Sampler again = resumed.sampler();
  std::size_t samples = 0;
  while (again.sample(kBatch, {.timeout = 0ns})) {
    samples += kBatch;
  }
  // The balance was within the error buffer, so at most it goes from one end to the other.
  EXPECT_LE(samples, static_cast<std::size_t>(2.0 * kErrorBuffer));
}

TEST(Autosave, RefusesBadOptions) {
  NumberedBuffer line;
  const auto refused = [&](const AutosaveOptions& options,
                           std::initializer_list<std::string_view> words) {
    expect_refusal([&] { const Autosave autosave(line.replay, "unused", options); }, words);
  };
  refused({.every = 0ns}, {"every", "0"});
  refused({.every = -1s}, {"every", "-1000000000"});
  refused({.keep = 0}, {"keep", "0"});
  refused({.compression = {.level = 20}}, {"compression", "20"});
  EXPECT_FALSE(std::filesystem::exists("unused"));
}

}  // namespace
}  // namespace reprise::test
