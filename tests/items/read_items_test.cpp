#include "testing/test.hpp"

namespace reprise::test {
namespace {

Options indexed(std::size_t shards) {
  return SmallOptions{.episode_index = true, .shards = shards};
}

/// Expects place i of the batch to hold step `number`, as a drawn batch would. Only the probability
/// is 0, because the item was not drawn.
void expect_step(const NumberedBuffer& line, const Batch& batch, std::size_t i,
                 std::uint64_t number) {
  EXPECT_EQ(batch.now(line.id)[i], number);
  EXPECT_EQ(batch.next(line.id)[i], number + 1);
  EXPECT_EQ(batch.now(line.action)[i], number);
  EXPECT_EQ(batch.returns(line.reward)[i], static_cast<float>(number));
  EXPECT_EQ(batch.lengths()[i], 1U);
  EXPECT_EQ(batch.weights()[i], 1.0F);
  EXPECT_EQ(batch.probabilities()[i], 0.0);
}

/// Expects zeros at place i of the batch, as for a stale key.
void expect_zeros(const NumberedBuffer& line, const Batch& batch, std::size_t i) {
  EXPECT_EQ(batch.now(line.id)[i], 0U);
  EXPECT_EQ(batch.next(line.id)[i], 0U);
  EXPECT_EQ(batch.now(line.action)[i], 0U);
  EXPECT_EQ(batch.now(line.reward)[i], 0.0F);
  EXPECT_EQ(batch.returns(line.reward)[i], 0.0F);
  EXPECT_EQ(batch.discounts()[i], 0.0F);
  EXPECT_EQ(batch.lengths()[i], 0U);
  EXPECT_EQ(batch.positions()[i], 0U);
  EXPECT_EQ(batch.episode_ids()[i], 0U);
  EXPECT_EQ(batch.weights()[i], 0.0F);
  EXPECT_EQ(batch.probabilities()[i], 0.0);
}

TEST(Gather, GivesTheItemsInTheOrderOfTheirKeysAndZerosForStaleKeys) {
  const std::uint64_t seed = 20261120;
  for (const std::size_t shards : {1U, 3U}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", shards " << shards);
    Rng rng(seed + shards);
    NumberedBuffer line(indexed(shards));
    std::map<std::uint64_t, ItemKey> all_keys;  // Keys by step, of evicted items too.
    // Gathers many keys, most of them several times, into a batch with earlier contents.
    constexpr std::size_t kKeys = 5000;
    constexpr std::size_t kOffset = 3;
    Batch batch = line.replay.make_batch(kOffset + kKeys);
    for (std::uint64_t first = 1; first < 400; first += 40) {
      line.append_many(first, 40);
      const std::map<std::uint64_t, ItemKey> resident = line.keys();
      all_keys.insert(resident.begin(), resident.end());
      std::vector<std::uint64_t> numbers;
      std::vector<ItemKey> keys;
      for (std::size_t i = 0; i < kKeys; ++i) {
        const auto picked =
            std::next(all_keys.begin(), static_cast<std::ptrdiff_t>(rng.below(all_keys.size())));
        numbers.push_back(picked->first);
        keys.push_back(picked->second);
      }
      const std::size_t gathered = line.replay.gather(keys, batch, kOffset);
      ASSERT_EQ(batch.size(), kOffset + kKeys);
      std::size_t expected = 0;
      for (std::size_t i = 0; i < kKeys && !testing::Test::HasFailure(); ++i) {
        ASSERT_EQ(batch.keys()[kOffset + i], keys[i]);
        if (resident.contains(numbers[i])) {
          expect_step(line, batch, kOffset + i, numbers[i]);
          ++expected;
        } else {
          expect_zeros(line, batch, kOffset + i);
        }
      }
      EXPECT_EQ(gathered, expected);
    }
    EXPECT_LT(line.replay.stats().items, all_keys.size()) << "some items were evicted";
    EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
  }
}

TEST(Gather, OfTheKeysOfADrawnBatchGivesTheSameRowsAgain) {
  NumberedBuffer line(indexed(2));
  line.append_many(1, 50);
  Batch batch = line.replay.make_batch(16);
  ASSERT_EQ(line.replay.sampler().sample_into(batch, 0, 16).code, SampleStatus::Code::Ok);
  const std::vector<std::uint64_t> drawn(batch.now(line.id).begin(), batch.now(line.id).end());
  std::ranges::fill(batch.now(line.id), 0U);
  EXPECT_EQ(line.replay.gather(batch.keys(), batch), 16U);
  EXPECT_EQ(std::vector(batch.now(line.id).begin(), batch.now(line.id).end()), drawn);
}

TEST(Gather, OfFewKeysLeavesTheRestOfTheBatchAsItWas) {
  NumberedBuffer line(indexed(1));
  line.append_many(0, 8);
  const std::map<std::uint64_t, ItemKey> keys = line.keys();
  Batch batch = line.replay.make_batch(3);
  ASSERT_EQ(line.replay.gather(std::vector{keys.at(5), keys.at(3), keys.at(1)}, batch), 3U);
  ASSERT_EQ(line.replay.gather(std::vector{keys.at(2)}, batch), 1U);
  EXPECT_EQ(batch.size(), 3U);
  EXPECT_TRUE(std::ranges::equal(batch.now(line.id), std::vector<std::uint64_t>{2, 3, 1}));
}

TEST(Gather, FillsAndClearsUniqueFrames) {
  Options options = indexed(1);
  options.window = Transitions{.n_step = 1, .frame_stack = 2};
  NumberedBuffer line(options);
  line.append_many(1, 8);
  const std::map<std::uint64_t, ItemKey> keys = line.keys();
  Batch batch = line.replay.make_batch(2, nullptr, /*unique_frames=*/true);
  ASSERT_EQ(line.replay.gather(std::vector{keys.at(5), keys.at(3)}, batch), 2U);
  EXPECT_EQ(std::ranges::max(batch.frames(line.id)), 6U);
  EXPECT_TRUE(
      std::ranges::equal(batch.frames(line.id), std::vector<std::uint64_t>{4, 5, 6, 2, 3, 4}));
  ASSERT_EQ(line.replay.episodes().gather(line.writer().episode_id(), 7, 2, batch), 1U);
  EXPECT_TRUE(
      std::ranges::equal(batch.frames(line.id), std::vector<std::uint64_t>{7, 8, 9, 0, 0, 0}));
}

TEST(Gather, RefusesForeignKeysAndBatchesAndChangesNothing) {
  NumberedBuffer line(indexed(1));
  line.append_many(1, 8);
  const ItemKey key = line.keys().at(2);
  Batch batch = line.replay.make_batch(2);
  ASSERT_EQ(line.replay.gather(std::vector{key, key}, batch), 2U);
  const ItemKey foreign = ItemKey::make(key.slot(), key.generation(), key.tag() + 1);
  const ItemKey beyond = ItemKey::make(0xffffffffU, key.generation(), key.tag());
  expect_refusal(
      [&] {
        (void)line.replay.gather(std::vector{key, foreign}, batch);
      },
      {"gather: keys[1] has tag 8; allowed: keys of this buffer, tag 7"});
  EXPECT_THROW(line.replay.gather(std::vector{beyond}, batch), std::invalid_argument);
  expect_refusal(
      [&] {
        (void)line.replay.gather(std::vector{key, key}, batch, 1);
      },
      {"gather: offset 1 + n 2; allowed: at most the batch's capacity 2"});
  expect_refusal([&] { (void)line.replay.episodes().gather(0, 0, 3, batch); },
                 {"gather: offset 0 + n 3; allowed: at most the batch's capacity 2"});
  Options other = indexed(1);
  other.window = Transitions{.n_step = 2};
  NumberedBuffer other_window(other);
  Batch of_other_window = other_window.replay.make_batch(2);
  expect_refusal([&] { (void)line.replay.gather(std::vector{key}, of_other_window); },
                 {"gather: the batch is of another schema or window than the buffer"});
  // The sum of a position and the number of steps must not wrap around.
  const std::uint64_t episode = line.writer().episode_id();
  Batch large = line.replay.make_batch(3000);
  EXPECT_EQ(line.replay.episodes().gather(episode, ~std::uint64_t{0} - 10, 3000, large), 0U);
  EXPECT_EQ(line.replay.episodes().gather(episode + 999, 0, 3000, large), 0U);
  const Batch none = line.replay.gather({});
  EXPECT_EQ(none.size() + none.now(line.id).size() + none.keys().size(), 0U);
  EXPECT_EQ(line.replay.episodes().gather(0, 0, 0).size(), 0U);
  EXPECT_EQ(line.replay.gather({}, batch), 0U);
  EXPECT_EQ(batch.size(), 2U);
  expect_step(line, batch, 0, 2);
  expect_step(line, batch, 1, 2);
  NumberedBuffer without_index;
  Batch its_batch = without_index.replay.make_batch(2);
  EXPECT_THROW(without_index.replay.episodes().gather(0, 0, 1, its_batch), std::logic_error);
}

}  // namespace
}  // namespace reprise::test
