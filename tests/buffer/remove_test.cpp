#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// Commits steps first to first + count - 1, the last one with `end`.
void append_to(NumberedBuffer& line, Writer& writer, std::uint64_t first, std::size_t count,
               End end) {
  line.append_many(writer, first, count - 1);
  line.append(writer, first + count - 1, end);
}

/// The keys of the steps first to end - 1.
std::vector<ItemKey> keys_in_range(const std::map<std::uint64_t, ItemKey>& keys,
                                   std::uint64_t first, std::uint64_t end) {
  std::vector<ItemKey> range;
  for (std::uint64_t number = first; number < end; ++number) {
    range.push_back(keys.at(number));
  }
  return range;
}

/// The call has more keys than `remove` sorts by shard at a time.
TEST(Remove, TakesManyKeysInAnyOrder) {
  NumberedBuffer line(
      SmallOptions{.capacity_steps = 8000, .episode_index = true, .chunk_steps = 100, .shards = 3});
  Writer writer = line.replay.writer();
  append_to(line, writer, 0, 7000, End::Terminated);
  ASSERT_EQ(line.replay.size(), 7000U);
  std::vector<ItemKey> keys;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    keys.push_back(line.replay.episodes().find(0, i * 1999 % 5000).value());
  }
  EXPECT_EQ(line.replay.remove(keys), 5000U);
  EXPECT_EQ(line.replay.size(), 2000U);
  EXPECT_FALSE(line.replay.episodes().find(0, 4999));
  EXPECT_TRUE(line.replay.episodes().find(0, 5000));
}

TEST(Remove, RefusesForeignKeysAndABufferWithoutAnIndex) {
  NumberedBuffer line(SmallOptions{.episode_index = false, .shards = 3});
  line.append_many(0, 3);
  std::vector<ItemKey> keys = keys_in_range(line.keys(), 0, 2);
  keys[1].bits ^= std::uint64_t{1} << 60U;
  expect_refusal([&] { line.replay.remove(keys); }, {"remove", "keys[1]", "tag"});
  expect_refusal<std::logic_error>([&] { line.replay.episodes().remove(0); },
                                   {"Options::episode_index"});
  EXPECT_EQ(line.replay.size(), 3U);
  EXPECT_EQ(line.replay.remove({}), 0U);
}

TEST(Remove, LowersTheLargestPriorityInTheBuffer) {
  for (const Selector& selector : {Selector(Proportional{}), Selector(RankBased{}),
                                   Selector(Mixture{}), Selector(MaxHeap{})}) {
    for (const std::uint32_t limit : {0U, 3U}) {
      Options options{.capacity_steps = 64, .selectors = {selector}};
      options.max_times_sampled = limit;
      NumberedBuffer line(options);
      line.append_many(0, 10, 1.0F);
      const ItemKey large = as_lvalue(line.replay.sampler()).sample(1)->keys()[0];
      line.update(large, 1e6F);
      EXPECT_GT(line.replay.selector().totals().largest, 100.0F);
      EXPECT_EQ(line.replay.remove({&large, 1}), 1U);
      EXPECT_LT(line.replay.selector().totals().largest, 2.0F) << "limit " << limit;
    }
  }
}

/// Saves between removals reuse chunks of earlier checkpoints, some items of which are removed.
TEST(Remove, ItemsAreStillRemovedInALoadedCheckpoint) {
  for (const std::uint32_t limit : {0U, 1000U}) {
    const ScratchDirectory directory;
    NumberedBuffer line(
        SmallOptions{.selectors = {Proportional{.alpha = 1.0F}, MaxHeap{}, Mixture{}},
                     .max_times_sampled = limit,
                     .episode_index = true,
                     .shards = 3});
    Writer writer = line.replay.writer();
    append_to(line, writer, 0, 60, End::Terminated);
    const std::map<std::uint64_t, ItemKey> before = line.keys();
    std::set<std::uint64_t> remaining;
    for (const auto& [number, key] : before) {
      remaining.insert(number);
    }
    Rng rng(5);
    for (int round = 0; round < 4; ++round) {
      line.replay.save(directory.path(), {.keep = 2});
      for (int i = 0; i < 7; ++i) {
        const std::uint64_t number = rng.below(60);
        EXPECT_EQ(line.replay.remove(keys_in_range(before, number, number + 1)),
                  remaining.erase(number));
      }
    }
    line.replay.save(directory.path());
    ReplayBuffer loaded = ReplayBuffer::load(directory.path()).buffer;
    EXPECT_EQ(loaded.size(), remaining.size());
    EXPECT_EQ(loaded.stats().items, remaining.size());
    EXPECT_EQ(loaded.selector().totals().weight, line.replay.selector().totals().weight);
    for (const auto& [number, key] : before) {
      EXPECT_EQ(loaded.gather(std::span(&key, 1)).lengths()[0], remaining.count(number)) << number;
      EXPECT_EQ(loaded.update_priorities(std::span(&key, 1), std::vector{2.0F}).applied,
                remaining.count(number));
    }
    for (std::size_t selector = 0; selector < 3; ++selector) {
      Sampler sampler = loaded.selector(selector).sampler();
      SampleOptions each_once = kNoWait;
      each_once.draws = Draws::WithoutReplacement;
      EXPECT_TRUE(sampler.sample(remaining.size(), each_once));
      EXPECT_FALSE(sampler.sample(remaining.size() + 1, each_once));
    }
    loaded.clear();
    EXPECT_EQ(loaded.stats().resident_steps, 0U);
    EXPECT_EQ(loaded.size(), 0U);
    expect_steps_add_up(loaded);
  }
}

TEST(Remove, WhileThreadsAppendDrawAndSaveCountsEveryStep) {
  const ScratchDirectory directory;
  NumberedBuffer line(SmallOptions{.capacity_steps = 500, .episode_index = true, .shards = 3});
  std::atomic<bool> running = true;
  // No two steps have the same number, because `keys` finds items by their number.
  std::atomic<std::uint64_t> next = 0;
  std::vector<std::jthread> threads;
  start(threads, 2, [&] {
    Writer writer = line.replay.writer();
    while (running) {
      const std::uint64_t number = next++;
      line.append(writer, number, number % 13 == 0 ? End::Terminated : End::Continue);
    }
  });
  threads.emplace_back([&] {
    while (running) {
      line.replay.save(directory.path(), {.keep = 1});
    }
  });
  Sampler sampler = line.replay.sampler({.seed = 3});
  std::size_t removed = 0;
  // On a busy machine writers may evict most of a batch before it is removed. The test then goes on
  // until enough items were removed.
  const auto too_few = [&](std::size_t round) { return removed <= 100 && round < 100'000; };
  for (std::size_t round = 0; round < scaled(2000, 300) || too_few(round); ++round) {
    const SampleResult batch = require_batch(sampler.sample(16));
    removed += round % 8 == 0 ? line.replay.episodes().remove(batch->episode_ids()[0])
                              : line.replay.remove(batch->keys().first(4));
    const Batch removed_items = line.replay.gather(batch->keys().first(round % 8 == 0 ? 1 : 4));
    for (std::size_t i = 0; i < removed_items.size(); ++i) {
      ASSERT_EQ(removed_items.lengths()[i], 0U);
    }
  }
  running = false;
  threads.clear();
  EXPECT_GT(removed, 100U);
  EXPECT_EQ(line.keys().size(), line.replay.size());
  EXPECT_EQ(line.replay.stats().items, line.replay.size());
  expect_steps_add_up(line.replay);
  line.replay.clear();
  EXPECT_EQ(line.replay.size(), 0U);
}

}  // namespace
}  // namespace reprise::test
