#include <reprise/reprise.hpp>

#include "../record/memory_file_system.hpp"
#include "save/save.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/fixtures/line.hpp"
#include "testing/fixtures/rng.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/fixtures/threads.hpp"
#include "testing/fixtures/wrapped_selector.hpp"
#include "testing/program/scale.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

/// Saves taken while writers go from one tiny chunk to the next in the middle of long episodes.
namespace reprise::test {
namespace {

constexpr const char* kDirectory = "checkpoints";
constexpr std::uint32_t kNStep = 3;

/// Calls a function, once, when items have entered.
class Interrupted final : public WrappedSelector {
 public:
  Interrupted(std::unique_ptr<ShardSelector> inner, std::function<void()>& call)
      : WrappedSelector(std::move(inner)), call_(call) {}
  void insert(const ItemRun& run, const SelectorSummary& others) noexcept override {
    WrappedSelector::insert(run, others);
    if (call_) {
      std::exchange(call_, nullptr)();
    }
  }

 private:
  std::function<void()>& call_;
};

/// Never evicts here.
Options options_with(Selector selector) {
  return Small{.capacity_steps = 20'000,
               .window = Transitions{.n_step = kNStep, .frame_stack = 2},
               .selectors = {std::move(selector)},
               .max_writers = 4,
               .chunk_steps = 10,
               .shards = 2};
}

/// A writer's steps are numbered from here on, in one episode.
constexpr std::uint64_t first_of(std::uint64_t writer) {
  return writer << 32U;
}

/// Loads what was saved. Of each writer's steps [0, committed[writer]), committed before the save,
/// all but the last, which no decided window reaches, are there; no step is there twice, and each
/// has its place in the episode.
void expect_each_step_once(MemoryFileSystem& files, ReplayBuffer& like,
                           const std::vector<std::uint64_t>& committed) {
  Line loaded;
  core_of(loaded.replay) = save::load(files, kDirectory, {}, core_of(like).get());
  const std::size_t items = loaded.replay.size();
  ASSERT_EQ(items, loaded.replay.stats().items);
  std::map<std::uint64_t, ItemKey> key_of;
  Sampler sampler = loaded.replay.sampler({.selector = 1, .parallel_gather_bytes = kGatherAlone});
  // A stratified draw of so many leaves out nobody.
  const SampleResult batch = sampler.sample(std::max<std::size_t>(1, 4 * items), kAtOnce);
  ASSERT_EQ(static_cast<bool>(batch), items != 0) << batch.status().message();
  for (std::size_t i = 0; batch && i < batch->size(); ++i) {
    const std::uint64_t number = batch->now(loaded.id)[2 * i + 1];
    const auto [at, fresh] = key_of.emplace(number, batch->keys()[i]);
    ASSERT_EQ(at->second, batch->keys()[i]) << "step " << number << " is there twice";
    if (fresh) {
      ASSERT_EQ(batch->positions()[i], number % first_of(1));
      ASSERT_EQ(batch->next(loaded.id)[2 * i + 1], number + batch->lengths()[i]);
      ASSERT_EQ(batch->now(loaded.action)[i], number);
    }
  }
  ASSERT_EQ(key_of.size(), items);
  for (std::size_t writer = 0; writer < committed.size(); ++writer) {
    for (std::uint64_t step = 0; step + kNStep <= committed[writer]; ++step) {
      ASSERT_TRUE(key_of.contains(first_of(writer) + step))
          << "step " << step << " of writer " << writer << " of " << committed[writer];
    }
  }
}

/// While the save ingests the first shard, where it has seen the first writer's chunk, that writer
/// goes on into a chunk of the second shard, which the save then sees too.
TEST(CheckpointBesideWriters, AStepSeenInTwoChunksIsThereOnce) {
  const std::uint64_t seed = 31;
  Rng rng(seed);
  std::function<void()> interruption;
  Line line(options_with(Wrapping{kRaw, [&](std::unique_ptr<ShardSelector> inner) {
                                    return std::make_unique<Interrupted>(std::move(inner),
                                                                         interruption);
                                  }}));
  std::vector<Writer> writers;
  for (int i = 0; i < 3; ++i) {
    writers.push_back(line.replay.writer());  // In shards 0, 1 and 0.
  }
  std::vector<std::uint64_t> committed(writers.size());
  const auto go_on = [&](std::size_t writer, std::size_t steps) {
    line.append_many(writers[writer], first_of(writer) + committed[writer], steps);
    committed[writer] += steps;
  };
  MemoryFileSystem files;
  files.record(false);
  for (std::size_t round = 0; round < 100; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
    const std::uint64_t other = rng.chance(0.5) ? 1 : 2;
    const std::uint64_t steps = rng.between(1, 12);
    go_on(0, rng.between(1, 12));
    (void)line.replay.size();  // All that is decided is ingested.
    go_on(other, rng.between(1, 5));
    const std::vector<std::uint64_t> before = committed;
    interruption = [&] { std::thread([&] { go_on(0, steps); }).join(); };
    save::save(*core_of(line.replay), files, kDirectory, {}, {});
    interruption = nullptr;
    expect_each_step_once(files, line.replay, before);
    if (HasFatalFailure()) {
      return;
    }
  }
}

TEST(CheckpointBesideWriters, EachStepIsThereOnceInOrder) {
  for (std::size_t round = 0; round < scaled(5, 2); ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    constexpr std::size_t kWriters = 2;
    Line line(options_with(kRaw));
    std::vector<std::atomic<std::uint64_t>> committed(kWriters);
    std::vector<std::jthread> threads;
    start(threads, kWriters, [&](std::size_t writer) {
      Writer own = line.replay.writer();
      for (std::uint64_t step = 0; step < 3000; ++step) {
        line.append(own, first_of(writer) + step);
        committed[writer].store(step + 1);
        if (step % 7 == 0) {
          std::this_thread::yield();
        }
      }
    });
    MemoryFileSystem files;
    files.record(false);
    std::vector<std::uint64_t> before(kWriters);
    do {
      for (std::size_t writer = 0; writer < kWriters; ++writer) {
        before[writer] = committed[writer].load();
      }
      save::save(*core_of(line.replay), files, kDirectory, {}, {});
      expect_each_step_once(files, line.replay, before);
    } while (before != std::vector<std::uint64_t>{3000, 3000} && !HasFatalFailure());
  }
}

/// Every batch of a buffer that was loaded from a save beside actors and learners holds whole rows.
TEST(CheckpointBesideWriters, AndLearnersHoldsWholeRows) {
  const ScratchDirectory directory;
  Line line(Small{.capacity_steps = 20000,
                  .window = Transitions{.n_step = 2, .frame_stack = 2},
                  .max_writers = 4,
                  .chunk_steps = 128,
                  .shards = 3});
  std::atomic<bool> done = false;
  std::vector<std::jthread> threads;
  start(threads, 2, [&](std::uint64_t actor) {
    Writer writer = line.replay.writer();
    for (std::uint64_t i = actor << 32U; !done.load(); ++i) {
      line.append(writer, i, i % 37 == 36 ? End::Terminated : End::Continue);
      if (i % 100 == 0) {  // Else all is evicted before its turn to be written comes.
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
  });
  threads.emplace_back([&] {
    Sampler sampler = line.replay.sampler();
    while (!done.load()) {
      if (const SampleResult batch = sampler.sample(32)) {
        line.replay.update_priorities(batch->keys(), batch->weights());
      }
    }
  });
  std::size_t with_items = 0;
  // On a busy machine there may be more rounds, until a save has had a processor in time.
  for (std::size_t round = 0; round < scaled(30, 6) || (with_items == 0 && round < 1000); ++round) {
    yield_while([&] { return line.replay.stats().committed_steps < 5000 * (round + 1); });
    line.replay.save(directory.path());
    ReplayBuffer loaded = ReplayBuffer::load(directory.path());
    const Stats stats = loaded.stats();
    EXPECT_EQ(stats.committed_steps,
              stats.resident_steps + stats.excess_steps + stats.evicted_steps);
    if (stats.items == 0) {
      continue;  // All was evicted before its turn came: the save had no processor.
    }
    ++with_items;
    Sampler sampler = loaded.sampler({.seed = round});
    const SampleResult batch = sampler.sample(4000, kAtOnce);
    EXPECT_TRUE(batch) << batch.status().message();
    if (!batch || HasFailure()) {
      break;
    }
    const auto now = batch->now(line.id);
    const auto next = batch->next(line.id);
    for (std::size_t i = 0; i < batch->size(); ++i) {
      const std::uint64_t number = now[2 * i + 1];
      EXPECT_TRUE(now[2 * i] == number || now[2 * i] + 1 == number);
      EXPECT_EQ(batch->now(line.action)[i], number);
      EXPECT_EQ(next[2 * i + 1], number + batch->lengths()[i]);
    }
  }
  EXPECT_GT(with_items, 0U);
  done.store(true);
  line.replay.close();
}

}  // namespace
}  // namespace reprise::test
