#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

// Tests `Episodes::sums`.
namespace reprise::test {
namespace {

/// For each key the sum of the weights of the later items of its episode, and of all of them.
struct Sums {
  std::vector<double> after;
  std::vector<double> totals;
  std::size_t found = 0;  ///< The number of keys whose item is in the buffer.
};

Sums sums_of(const ReplayBuffer& replay, std::span<const ItemKey> keys, std::size_t selector = 0) {
  Sums sums{std::vector<double>(keys.size()), std::vector<double>(keys.size())};
  sums.found = replay.episodes().sums(keys, sums.after, sums.totals, selector);
  return sums;
}

/// The keys of all items, with every kind of window: a stratified draw of 4 N items from N equal
/// weights gives every item.
std::vector<ItemKey> keys_in(NumberedBuffer& line) {
  std::map<std::uint64_t, ItemKey> keys;
  const std::size_t steps = line.replay.size();
  if (steps != 0) {
    // The sampler must outlive `all`, whose batch lies in the sampler's memory.
    Sampler sampler = line.replay.selector(1).sampler();
    const SampleResult all = sampler.sample(4 * steps, kNoWait);
    for (std::size_t i = 0; all && i < all->size(); ++i) {
      keys[all->keys()[i].bits] = all->keys()[i];
    }
  }
  std::vector<ItemKey> list;
  for (const auto& [bits, key] : keys) {
    list.push_back(key);
  }
  return list;
}

/// Compares `Episodes::sums` with sums over all gathered items. Priorities are small integers, so
/// weights and sums are exact.
void expect_correct_sums(NumberedBuffer& line) {
  const std::vector<ItemKey> keys = keys_in(line);
  const Batch items = line.replay.gather(keys);
  std::vector<float> priorities(keys.size());
  ASSERT_EQ(line.replay.selector().priorities(keys, priorities), keys.size());
  const Sums sums = sums_of(line.replay, keys);
  // Selector 1 is the `Uniform` one of `NumberedBuffer`, so its sums are numbers of items.
  const Sums counts = sums_of(line.replay, keys, 1);
  ASSERT_EQ(sums.found, keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    double after = 0.0;
    double total = 0.0;
    double count = 0.0;
    for (std::size_t j = 0; j < keys.size(); ++j) {
      if (items.episode_ids()[j] == items.episode_ids()[i]) {
        total += priorities[j];
        after += items.positions()[j] > items.positions()[i] ? priorities[j] : 0.0;
        count += 1.0;
      }
    }
    ASSERT_EQ(sums.after[i], after) << "of " << keys.size();
    ASSERT_EQ(sums.totals[i], total);
    ASSERT_EQ(counts.totals[i], count);
  }
}

Window random_window(Rng& rng) {
  if (rng.chance(0.3)) {
    return Sequences{
        .length = static_cast<std::uint32_t>(rng.between(1, 5)),
        .period = static_cast<std::uint32_t>(rng.between(1, rng.chance(0.5) ? 4 : 70))};
  }
  return Transitions{.n_step = static_cast<std::uint32_t>(rng.between(1, 3)),
                     .frame_stack = static_cast<std::uint32_t>(rng.between(1, 3))};
}

TEST(EpisodeSums, AreThoseOfTheItemsThatAreInTheBufferAfterAnyChange) {
  const std::size_t seeds = scaled(60, 12);
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    NumberedBuffer line(SmallOptions{.capacity_steps = rng.between(60, 250),
                                     .window = random_window(rng),
                                     .episode_index = true,
                                     .max_writers = 3,
                                     .chunk_steps = rng.between(14, 40),
                                     .shards = rng.between(1, 3)});
    std::vector<Writer> writers;
    const auto renew_writers = [&] {
      writers.clear();
      while (writers.size() < 3) {
        writers.push_back(line.replay.writer());
      }
    };
    renew_writers();
    const double end_chance = rng.chance(0.5) ? 0.01 : 0.1;
    for (std::uint64_t number = 0; number < 600; ++number) {
      line.append(writers[rng.below(writers.size())], number,
                  rng.chance(end_chance) ? End::Terminated : End::Continue);
      if (!rng.chance(0.05)) {
        continue;
      }
      std::vector<ItemKey> keys = keys_in(line);
      std::erase_if(keys, [&](ItemKey) { return rng.chance(0.7); });
      std::vector<float> priorities(keys.size());
      std::ranges::generate(priorities, [&] { return static_cast<float>(rng.below(8)); });
      line.replay.update_priorities(keys, priorities);
      if (rng.chance(0.3)) {
        line.replay.remove(std::span(keys).first(keys.size() / 4));
      } else if (rng.chance(0.1)) {
        const ScratchDirectory directory;
        line.replay.save(directory.path());
        line.replay.restore(directory.path());
        renew_writers();
      } else if (rng.chance(0.05)) {
        line.replay.clear();
      }
      expect_correct_sums(line);
    }
    EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
  }
}

TEST(EpisodeSums, AddUpALongEpisodeOverAllItsChunksAndShards) {
  constexpr std::uint64_t kSteps = 5000;
  NumberedBuffer line(
      SmallOptions{.capacity_steps = 6000, .episode_index = true, .chunk_steps = 12, .shards = 4});
  line.append_many(0, kSteps, [](std::uint64_t i) { return static_cast<float>(i % 16); });
  const std::map<std::uint64_t, ItemKey> keys = line.keys();
  ASSERT_EQ(keys.size(), kSteps);
  const Sums sums = sums_of(line.replay, line.key_list());
  double after = 0.0;
  for (std::uint64_t i = kSteps; i-- > 0;) {
    ASSERT_EQ(sums.after[i], after) << i;
    after += static_cast<double>(i % 16);
  }
  EXPECT_EQ(sums.totals, std::vector<double>(kSteps, after));
}

TEST(EpisodeSums, LeaveOutRemovedAndExhaustedItems) {
  NumberedBuffer line(SmallOptions{.selectors = {kRawProportional, Fifo{}},
                                   .max_times_sampled = 1,
                                   .episode_index = true,
                                   .shards = 2});
  line.append_many(0, 10, [](std::uint64_t i) { return static_cast<float>(i + 1); });
  std::vector<ItemKey> keys;
  for (std::uint64_t i = 0; i < 10; ++i) {
    keys.push_back(*line.replay.episodes().find(line.writer().episode_id(), i));
  }
  const SampleResult drawn =
      // `Fifo` draws the items of priorities 1 to 4. They may be drawn once, so they are exhausted.
      as_lvalue(line.replay.selector(1).sampler()).sample(4, kNoWait);
  ASSERT_TRUE(drawn);
  line.replay.remove(std::span(keys).last(1));
  const Sums sums = sums_of(line.replay, keys);
  EXPECT_EQ(sums.found, 9U);
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(sums.totals[i], 5 + 6 + 7 + 8 + 9);
    // The sum of the priorities from i + 2 to 9; exhausted items, with priorities up to 4, weigh 0.
    const double sum_after = static_cast<double>(90 - (i + 1) * (i + 2)) / 2.0;
    EXPECT_EQ(sums.after[i], i < 4 ? 35.0 : sum_after) << i;
  }
  EXPECT_TRUE(std::isnan(sums.after[9]) && std::isnan(sums.totals[9]));
}

TEST(EpisodeSums, RefuseSelectorsSpansAndKeysThatDoNotFit) {
  NumberedBuffer line(
      SmallOptions{.selectors = {kRawProportional, RankBased{}}, .episode_index = true});
  line.append_many(0, 3);
  const std::vector<ItemKey> keys = line.key_list();
  std::vector<double> room(keys.size());
  const Episodes episodes = line.replay.episodes();
  const auto refused = [&](auto call, std::initializer_list<std::string_view> words) {
    expect_refusal([&] { (void)call(); }, words);
    EXPECT_EQ(room, std::vector<double>(keys.size())) << "nothing is written";
  };
  refused([&] { return episodes.sums(keys, room, room, 1); },
          {"selector is 1", "by weight alone", "Proportional"});
  refused([&] { return episodes.sums(keys, room, room, 7); }, {"selector is 7"});
  refused([&] { return episodes.sums(keys, std::span(room).first(1), room); },
          {"3 keys and room for 1 and 3 sums"});
  refused([&] { return episodes.sums(keys, room, std::span(room).first(1)); },
          {"3 keys and room for 3 and 1 sums"});
  const ItemKey foreign = ItemKey::make(0, 0, 9);
  refused(
      [&] {
        return episodes.sums(std::span(&foreign, 1), std::span(room).first(1),
                             std::span(room).last(1));
      },
      {"sums", "keys[0]"});
}

/// Updates give priorities of 1 or 2 meanwhile, so the sum of n items is at most 2 n.
TEST(EpisodeSums, AreWithinTheBoundsOfThePrioritiesWhileOtherThreadsUpdateAndAppend) {
  NumberedBuffer line(
      SmallOptions{.capacity_steps = 3000, .episode_index = true, .chunk_steps = 32, .shards = 3});
  constexpr std::size_t kItems = 500;
  line.append_many(0, kItems, 1.0F);
  const std::vector<ItemKey> keys = line.key_list();
  std::atomic<bool> done{false};
  std::vector<std::jthread> threads;
  start(threads, 2, [&](std::size_t seed) {
    Rng rng(seed);
    std::vector<float> priorities(keys.size());
    while (!done.load()) {
      std::ranges::generate(priorities, [&] { return rng.chance(0.5) ? 1.0F : 2.0F; });
      line.replay.update_priorities(keys, priorities);
    }
  });
  start(threads, 1, [&] {
    Writer writer = line.replay.writer();
    for (std::uint64_t i = 0; !done.load(); ++i) {
      line.append(writer, 1000 + i, i % 50 == 0 ? End::Terminated : End::Continue);
      if (i % 2000 == 0) {
        std::this_thread::yield();
      }
    }
  });
  for (std::size_t i = 0; i < scaled(300, 40); ++i) {
    const Sums sums = sums_of(line.replay, keys);
    for (std::size_t k = 0; k < keys.size(); ++k) {
      if (std::isnan(sums.totals[k])) {
        continue;  // This item was evicted for steps of the other writer.
      }
      ASSERT_LE(sums.after[k], sums.totals[k]);
      ASSERT_LE(sums.totals[k], 2.0 * kItems);
    }
  }
  done.store(true);
}

}  // namespace
}  // namespace reprise::test
