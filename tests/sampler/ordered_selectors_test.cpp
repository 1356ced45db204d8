#include <reprise/reprise.hpp>

#include "base/mutex.hpp"
#include "buffer/buffer_core.hpp"
#include "testing/faults/hooked_fifo.hpp"
#include "testing/faults/lock_holder.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/fixtures/line.hpp"
#include "testing/fixtures/refusal.hpp"
#include "testing/fixtures/rng.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace reprise::test {
namespace {

Options ordered_options(std::size_t shards, Selector selector) {
  Options options = small_options();
  options.capacity_steps = 200;
  options.shards = shards;
  options.selectors = {std::move(selector)};
  return options;
}

/// Steps of several writers with random priorities, in random turns, in a buffer that overflows.
/// Each is an episode of its own, so that its number is in `now(id)`.
class Mixed {
 public:
  Mixed(std::size_t shards, const Selector& selector, std::uint64_t seed)
      : line(ordered_options(shards, selector)), sampler_(line.replay.sampler()), rng_(seed) {}

  void append(std::size_t steps) {
    std::vector<Writer> writers;
    for (int w = 0; w < 3; ++w) {
      writers.push_back(line.replay.writer());
    }
    for (std::size_t i = 0; i < steps; ++i) {
      const auto priority = static_cast<float>(rng_.below(50));
      priorities[next_] = priority;
      line.append(writers[rng_.below(3)], next_++, End::Terminated, std::span(&priority, 1));
    }
  }

  /// Gives random items of the buffer new priorities.
  void update(std::size_t count) {
    const std::map<std::uint64_t, ItemKey> keys = line.keys();
    for (std::size_t i = 0; i < count; ++i) {
      auto item = keys.begin();
      std::advance(item, static_cast<std::ptrdiff_t>(rng_.below(keys.size())));
      const auto priority = static_cast<float>(rng_.below(50));
      priorities[item->first] = priority;
      const auto [applied, stale] = line.update(item->second, priority);
      ASSERT_EQ(applied, 1U);
      ASSERT_EQ(stale, 0U);
    }
  }

  /// Numbers of a batch, in its order.
  std::vector<std::uint64_t> draw(std::size_t n) {
    const SampleResult batch = sampler_.sample(n, kAtOnce);
    EXPECT_TRUE(batch) << batch.status().message();
    const auto ids = batch->now(line.id);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(batch->probabilities()[i], 1.0);
      EXPECT_EQ(batch->weights()[i], 1.0F);
    }
    return {ids.begin(), ids.end()};
  }

  Line line;
  std::map<std::uint64_t, float> priorities;

 private:
  Sampler sampler_;
  Rng rng_;
  std::uint64_t next_ = 0;
};

constexpr std::uint64_t kSeed = 20261101;

TEST(OrderedSelectors, FifoAndLifoDrawInTheOrderOfCommitsOverAllShards) {
  for (const std::size_t shards : {1U, 3U}) {
    Mixed fifo(shards, Fifo{}, kSeed);
    Mixed lifo(shards, Lifo{}, kSeed);
    for (const std::size_t steps : {50U, 120U, 300U, 7U}) {
      SCOPED_TRACE(testing::Message() << shards << " shards, seed " << kSeed << ", " << steps);
      fifo.append(steps);
      lifo.append(steps);
      std::vector<std::uint64_t> resident = fifo.line.numbers();
      const std::size_t all = resident.size();
      EXPECT_EQ(fifo.draw(all), resident);
      resident.resize(all / 2);
      EXPECT_EQ(fifo.draw(all / 2), resident) << "they are still there";
      resident = lifo.line.numbers();
      std::reverse(resident.begin(), resident.end());
      EXPECT_EQ(lifo.draw(all), resident);
      resident.resize(all / 2);
      EXPECT_EQ(lifo.draw(all / 2), resident);
    }
  }
}

TEST(OrderedSelectors, HeapsDrawByPriorityOverAllShards) {
  for (const std::size_t shards : {1U, 3U}) {
    for (const bool highest : {true, false}) {
      Mixed mixed(shards, highest ? Selector(MaxHeap{}) : Selector(MinHeap{}), kSeed + 1);
      for (const std::size_t steps : {50U, 120U, 300U, 7U}) {
        SCOPED_TRACE(testing::Message()
                     << shards << " shards, highest " << highest << ", " << steps);
        mixed.append(steps);
        mixed.update(40);
        std::vector<float> expected;
        for (const std::uint64_t number : mixed.line.numbers()) {
          expected.push_back(mixed.priorities.at(number));
        }
        std::sort(expected.begin(), expected.end());
        if (highest) {
          std::reverse(expected.begin(), expected.end());
        }
        const std::size_t n = 1 + expected.size() / 2;
        expected.resize(n);
        const std::vector<std::uint64_t> drawn = mixed.draw(n);
        std::vector<float> found;
        for (const std::uint64_t number : drawn) {
          found.push_back(mixed.priorities.at(number));
        }
        EXPECT_EQ(found, expected);
        EXPECT_EQ(std::set(drawn.begin(), drawn.end()).size(), n) << "each once";
      }
    }
  }
}

TEST(OrderedSelectors, AnItemIsOrderedByWhenItWasDecided) {
  Options options = ordered_options(1, Fifo{});
  options.window = Transitions{.n_step = 3};
  Line line(options);
  Writer slow = line.replay.writer();
  Writer quick = line.replay.writer();
  line.append(slow, 0);
  line.append(slow, 1);                     // Open: neither has its window yet.
  line.append(quick, 10, End::Terminated);  // Decided at once.
  line.append(slow, 2);                     // Decides 0.
  Sampler sampler = line.replay.sampler();
  const SampleResult batch = sampler.sample(2, kAtOnce);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->now(line.id)[0], 10U);
  EXPECT_EQ(batch->now(line.id)[1], 0U);
}

TEST(OrderedSelectors, HeapsTakeTheLastOfRepeatedKeys) {
  for (const bool highest : {true, false}) {
    Mixed mixed(1, highest ? Selector(MaxHeap{}) : Selector(MinHeap{}), kSeed);
    Writer writer = mixed.line.replay.writer();
    for (std::uint64_t i = 0; i < 3; ++i) {
      mixed.line.append(writer, i, 5.0F);
    }
    const auto keys = mixed.line.keys();
    const std::vector<ItemKey> repeated = {keys.at(2), keys.at(0), keys.at(1), keys.at(2),
                                           keys.at(0)};
    const std::vector<float> priorities = {1.0F, 9.0F, 4.0F, 7.0F, 2.0F};
    EXPECT_EQ(mixed.line.replay.update_priorities(repeated, priorities).applied, 5U);
    const std::vector<std::uint64_t> rising = {0, 1, 2};
    EXPECT_EQ(mixed.draw(3), highest ? std::vector(rising.rbegin(), rising.rend()) : rising);
  }
}

TEST(OrderedSelectors, AnItemDecidedDuringADrawWaitsForTheOneBeforeIt) {
  std::function<void()> before_draw;
  Options options = ordered_options(2, HookedFifo{[&] { before_draw(); }});
  options.rate_limiter = Unlimited{};  // A draw of more items than there are does not wait.
  Line line(options);
  shard::Shard& first = core_of(line.replay)->shards()[0];
  shard::Shard& second = core_of(line.replay)->shards()[1];
  Writer to_first = line.replay.writer();
  Writer to_second = line.replay.writer();
  line.append(to_first, 0);
  line.append(to_second, 1);
  ASSERT_EQ(line.replay.size(), 2U);
  ASSERT_EQ(first.hints().items(), 1U);

  std::optional<LockHolder> holder;
  before_draw = [&] {
    line.append(to_first, 2);
    holder.emplace(second.mutex);
  };
  Sampler sampler = line.replay.sampler();
  std::jthread learner([&] {
    const SampleResult batch = sampler.sample(4, kAtOnce);
    ASSERT_TRUE(batch) << batch.status().message();
    EXPECT_TRUE(std::ranges::equal(batch->now(line.action), std::vector{0U, 1U, 2U, 3U}));
  });
  yield_while([&] { return first.hints().items() != 2; });
  // The sampler has the news of the first shard, and waits for the lock of the second.
  { const base::MutexLock ingested(first.mutex); }
  line.append(to_first, 3);
  line.append(to_second, 4);
  holder->let_go();
}

TEST(OrderedSelectors, AnItemWithPriorityZeroIsTheLast) {
  Mixed mixed(1, MaxHeap{}, kSeed);
  Writer writer = mixed.line.replay.writer();
  mixed.line.append(writer, 0, 0.0F);
  mixed.line.append(writer, 1, 2.0F);
  EXPECT_EQ(mixed.draw(2), (std::vector<std::uint64_t>{1, 0}));
}

TEST(OrderedSelectors, ABatchLargerThanTheBufferWaitsAndSaysForWhat) {
  Mixed mixed(2, Lifo{}, kSeed);
  mixed.append(5);
  Sampler sampler = mixed.line.replay.sampler();
  const SampleResult batch = sampler.sample(6, kAtOnce);
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.status().code, SampleStatus::Code::TimedOut);
  EXPECT_EQ(batch.status().needed, 6U);
  EXPECT_EQ(batch.status().items, 5U);
}

TEST(OrderedSelectors, RefuseOptionsByTheirOwnNames) {
  for (const float constant : {-1.0F, std::numeric_limits<float>::infinity()}) {
    expect_refusal<std::invalid_argument>(
        [&] { Line(ordered_options(1, MaxHeap{.initial_constant = constant})); },
        {"MaxHeap::initial_constant", "allowed: "});
    expect_refusal<std::invalid_argument>(
        [&] { Line(ordered_options(1, MinHeap{.initial_constant = constant})); },
        {"MinHeap::initial_constant", "allowed: "});
  }
}

}  // namespace
}  // namespace reprise::test
