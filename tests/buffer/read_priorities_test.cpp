#include "testing/test.hpp"

namespace reprise::test {
namespace {

Options three_shards(Selector selector) {
  return SmallOptions{.selectors = {std::move(selector)}, .shards = 3};
}

TEST(ReadPriorities, AreThoseThatWereSetAndCanBeSetAgainWithoutAChange) {
  for (const float alpha : {0.1F, 0.6F, 1.0F, 3.0F}) {
    SCOPED_TRACE(alpha);
    NumberedBuffer line(three_shards(Proportional{.alpha = alpha, .epsilon = 1e-3F}));
    line.append_many(0, 60);
    std::vector<ItemKey> keys = line.key_list();
    std::vector<float> set(keys.size());
    // Priorities over many powers of ten. The first lies a little below its place in the series.
    for (std::size_t i = 0; i < set.size(); ++i) {
      set[i] =
          std::exp(0.3F * (static_cast<float>(i) - 40.0F)) - 1e-6F * static_cast<float>(i == 0);
    }
    line.replay.update_priorities(keys, set);
    std::vector<float> read(keys.size());
    ASSERT_EQ(line.replay.selector().priorities(keys, read), keys.size());
    for (std::size_t i = 0; i < set.size(); ++i) {
      // A weight is rounded to a float; its root divides the relative error by alpha.
      EXPECT_NEAR(read[i], set[i], 0x1p-22F / alpha * (set[i] + 1e-3F)) << i;
    }
    const std::map<std::uint64_t, double> before = line.probabilities();
    line.replay.update_priorities(keys, read);
    EXPECT_EQ(line.probabilities(), before);
    // More keys than `buffer::priorities` reads together (`kKeysPerBlock`), in another order.
    std::vector<ItemKey> many;
    for (std::size_t i = 0; i < 5000; ++i) {
      many.push_back(keys[i * 17 % keys.size()]);
    }
    std::vector<float> all(many.size());
    ASSERT_EQ(line.replay.selector().priorities(many, all), many.size());
    for (std::size_t i = 0; i < many.size(); ++i) {
      ASSERT_EQ(all[i], read[i * 17 % keys.size()]);
    }
  }
}

TEST(ReadPriorities, TotalsAddUpTheWeightsOfAllShards) {
  NumberedBuffer line(three_shards(Proportional{.alpha = 2.0F, .epsilon = 0.0F}));
  EXPECT_EQ(line.replay.selector().totals().weight, 0.0);
  EXPECT_EQ(line.replay.selector().totals().largest, 0.0F);
  EXPECT_EQ(line.replay.selector().totals().items, 0U);
  line.append_many(0, 40, [](std::uint64_t i) { return static_cast<float>(i); });
  // `totals` first ingests the steps committed before.
  const SelectorTotals totals = line.replay.selector().totals();
  // The sum of the squares of 0 to 39.
  EXPECT_EQ(totals.weight, 39.0 * 40.0 * 79.0 / 6.0);
  EXPECT_EQ(totals.largest, 39.0F * 39.0F);
  EXPECT_EQ(totals.items, 40U);
  EXPECT_EQ(line.replay.selector(1).totals().weight, 40.0);
}

TEST(ReadPriorities, RefuseForeignKeysUnknownSelectorsAndTooLittleRoom) {
  NumberedBuffer line;
  line.append_many(0, 4);
  const ItemKey key = line.key_list()[0];
  const ItemKey foreign = ItemKey::make(key.slot(), key.generation(), key.tag() + 1);
  std::vector<float> room(1);
  const auto read = [&](std::vector<ItemKey> keys, std::size_t selector) {
    (void)line.replay.selector(selector).priorities(keys, room);
  };
  expect_refusal([&] { read({key, key}, 0); }, {"2 keys and room for 1 priorities"});
  expect_refusal([&] { read({foreign}, 0); }, {"keys[0] has tag 8"});
  expect_refusal([&] { read({key}, 2); }, {"selector is 2"});
  expect_refusal([&] { (void)line.replay.selector(2).totals(); }, {"selector is 2"});
}

TEST(ReadPriorities, AreThoseThatWereSetAlsoWhileAlphaChanges) {
  NumberedBuffer line(three_shards(Proportional{.alpha = 1.0F, .epsilon = 0.0F}));
  line.append_many(0, 60, 16.0F);
  const std::vector<ItemKey> keys = line.key_list();
  std::jthread setter([&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      line.replay.selector().set_alpha(i % 2 == 0 ? 0.5F : 1.0F);
    }
  });
  std::vector<float> read(keys.size());
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(line.replay.selector().priorities(keys, read), keys.size());
    for (const float priority : read) {
      ASSERT_NEAR(priority, 16.0F, 16e-5F);
    }
  }
}

}  // namespace
}  // namespace reprise::test
