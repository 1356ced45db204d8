#include <reprise/remote.hpp>

#include "testing/faults/child.hpp"
#include "testing/fixtures/any_values.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

Options options_of(std::size_t max_writers = 4) {
  return SmallOptions{.capacity_steps = 500,
                      .window = Transitions{.n_step = 3},
                      .max_writers = max_writers,
                      .key_tag = 3};
}

using Items =
    std::map<std::uint64_t, std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, double>>;

/// For each item, by its action: the first and the next observation, the number of steps, and the
/// probability.
Items items_of(NumberedBuffer& line) {
  Items items;
  const std::map<std::uint64_t, double> probabilities = line.probabilities();
  const std::vector<ItemKey> keys = line.key_list();
  const Batch batch = line.replay.gather(keys);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::uint64_t action = batch.now(line.action)[i];
    items[action] = {batch.now(line.id)[i], batch.next(line.id)[i], batch.lengths()[i],
                     probabilities.at(action)};
  }
  return items;
}

/// A buffer with writers of its own, and a buffer to which a packer's steps are shipped.
struct PackedBufferPair {
  NumberedBuffer direct{options_of()};
  NumberedBuffer shipped{options_of()};
  std::optional<StepPacker> packer{std::in_place, shipped.schema, options_of(), 5};
  ReplayShard shard{shipped.replay};

  AppendResult ship() { return shard.append(packer->take().bytes()); }
  void expect_same_items() {
    EXPECT_EQ(direct.replay.stats().committed_steps, shipped.replay.stats().committed_steps);
    EXPECT_EQ(items_of(direct), items_of(shipped));
  }
};

class PackerOf : public testing::TestWithParam<AutoReset> {};

TEST_P(PackerOf, VectorWritersAppendTheSameItemsAsVectorWritersOfABuffer) {
  PackedBufferPair both;
  VectorWriter writers[] = {VectorWriter(both.direct.replay, 2, {}, GetParam()),
                            both.packer->vector_writer(2, GetParam())};
  for (std::uint64_t i = 0; i < 60; ++i) {
    const std::array<std::uint64_t, 2> seen = {i, 1000 + i};
    const std::array<std::uint64_t, 2> next = {i + 1, 1000 + i + 1};
    const std::array<float, 2> rewards = {1.0F, 2.0F};
    const std::array<End, 2> ends = {i % 7 == 6 ? End::Terminated : End::Continue,
                                     i % 11 == 10 ? End::Truncated : End::Continue};
    const std::vector<AnyValue> first = {now_of(both.direct.id, seen)};
    const std::vector<AnyValue> values = {now_of(both.direct.action, seen),
                                          now_of(both.direct.reward, rewards),
                                          next_of(both.direct.id, next)};
    for (VectorWriter& writer : writers) {
      if (i == 0 || GetParam() == AutoReset::Disabled) {
        writer.begin(first);
      }
      const bool has_resets = GetParam() == AutoReset::SameStep;
      ASSERT_EQ(
          writer.append(ends, values, has_resets ? std::span(first) : std::span<const AnyValue>()),
          CommitStatus::Committed);
    }
    if (i % 5 == 4) {
      (void)both.ship();
      both.expect_same_items();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AutoResets, PackerOf,
                         testing::Values(AutoReset::SameStep, AutoReset::NextStep,
                                         AutoReset::Disabled));

TEST(StepPacker, AppendsWholeEpisodesAndSingleTransitionsAsABufferDoes) {
  PackedBufferPair both;
  Writer writers[] = {both.direct.replay.writer(), both.packer->writer()};
  const NumberedBuffer& line = both.direct;
  std::vector<std::uint64_t> numbers = {3, 4, 5, 6, 7, 8};
  const std::vector<float> rewards(5, 1.0F);
  const std::vector<float> priorities = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F};
  const std::vector<AnyValue> episode = {now_of(line.id, numbers),
                                         now_of(line.action, std::span(numbers).first(5)),
                                         now_of(line.reward, rewards)};
  for (Writer& writer : writers) {
    std::size_t taken = 0;
    ASSERT_EQ(writer.add_episode(5, End::Terminated, episode, taken, priorities),
              CommitStatus::Committed);
    // Observation 40 does not continue step 22, so a new episode begins there.
    for (const std::uint64_t i : {20U, 21U, 22U, 40U, 41U}) {
      ASSERT_EQ(
          writer.add_transition(i == 41 ? End::Truncated : End::Continue, now(line.id, i),
                                now(line.action, i), now(line.reward, 1.0F), next(line.id, i + 1)),
          CommitStatus::Committed);
    }
  }
  EXPECT_EQ(both.packer->steps(), 10U);
  EXPECT_EQ(both.ship().steps, 10U);
  both.expect_same_items();
}

TEST(StepPacker, RefusesTheCallsThatABufferRefusesAndPacksNothing) {
  PackedBufferPair both;
  Writer writer = both.packer->writer();
  const std::vector<float> too_many(2, 1.0F);
  EXPECT_THROW(writer.commit(), std::logic_error) << "outside an episode";
  writer.begin_episode();
  writer.now(both.shipped.id) = 1;
  writer.next(both.shipped.id) = 2;
  writer.now(both.shipped.reward) = 0.0F;
  EXPECT_THROW(writer.commit(), std::logic_error) << "the action is unwritten";
  writer.now(both.shipped.action) = 1;
  EXPECT_THROW(writer.commit(End::Continue, too_many), std::invalid_argument);
  EXPECT_TRUE(both.packer->empty());
  EXPECT_EQ(both.packer->steps(), 0U);
  EXPECT_EQ(writer.commit(), CommitStatus::Committed);
  EXPECT_EQ(both.packer->steps(), 1U);
  EXPECT_THROW((void)both.packer->vector_writer(0), std::invalid_argument);
  Options wrong = options_of(0);
  EXPECT_THROW(StepPacker(both.shipped.schema, wrong), std::invalid_argument);
  wrong = options_of();
  wrong.selectors.clear();
  EXPECT_THROW(StepPacker(both.shipped.schema, wrong), std::invalid_argument);
}

TEST(StepPacker, HasAsManyWritersAsTheShardsMayHave) {
  PackedBufferPair both;
  std::vector<Writer> writers;
  for (int w = 0; w < 3; ++w) {
    writers.push_back(both.packer->writer());
  }
  EXPECT_THROW((void)both.packer->vector_writer(2), std::runtime_error);
  // The refused vector writer has given back its first writer.
  writers.push_back(both.packer->writer());
  EXPECT_THROW((void)both.packer->writer(), std::runtime_error);
  for (std::size_t w = 0; w < 4; ++w) {
    both.shipped.append(writers[w], w, End::Terminated);
  }
  EXPECT_EQ(both.ship().steps, 4U);
  EXPECT_EQ(both.shipped.replay.stats().writers, 4U)
      << "each writer of the packer has its own there";
}

TEST(StepPacker, EndsTheEpisodeOfADestroyedWriterBeforeANewWriterTakesItsPlace) {
  PackedBufferPair both;
  std::optional<Writer> writer(both.packer->writer());
  both.shipped.append_many(*writer, 0, 4);
  (void)both.ship();
  // The first new writer gets another place, because the old writer has not been destroyed yet. The
  // second one gets the old writer's place.
  writer.emplace(both.packer->writer());
  writer.emplace(both.packer->writer());
  both.shipped.append_many(*writer, 100, 4);
  // This shipment, with the end of the first episode and steps of the second, is lost.
  const Blob lost = both.packer->take();
  both.shipped.append_many(*writer, 104, 4);
  EXPECT_EQ(both.ship().restarted, 1U) << "the shard still had the first episode";
  EXPECT_EQ(both.shipped.numbers(), (std::vector<std::uint64_t>{0, 1, 2, 3, 104, 105}));
}

TEST(StepPacker, ThatIsDestroyedClosesItsWriters) {
  PackedBufferPair both;
  Writer writer = both.packer->writer();
  both.shipped.append_many(writer, 0, 3);
  StepPacker moved = *std::move(both.packer);
  both.packer.reset();
  EXPECT_EQ(both.shipped.append(writer, 3), CommitStatus::Committed);
  EXPECT_EQ(moved.steps(), 4U);
  moved = StepPacker(both.shipped.schema, options_of());
  EXPECT_EQ(both.shipped.append(writer, 4), CommitStatus::Closed);
  EXPECT_EQ(moved.steps(), 0U);
  writer.begin_episode();  // Must not throw, as for a writer whose buffer is closed.
}

TEST(StepPacker, RefusesAForkedChild) {
  PackedBufferPair both;
  Writer writer = both.packer->writer();
  both.shipped.append_many(writer, 0, 3);
  const pid_t maker = ::getpid();
  expect_in_child([&] {
    std::string all;
    const auto refused = [&](const char* what, auto&& call) {
      all += describe_unless_refused<std::logic_error>(what, maker, call);
    };
    refused("commit", [&] { (void)both.shipped.append(writer, 3); });
    refused("begin_episode", [&] { writer.begin_episode(); });
    refused("writer", [&] { (void)both.packer->writer(); });
    refused("take", [&] { (void)both.packer->take(); });
    refused("empty", [&] { (void)both.packer->empty(); });
    refused("steps", [&] { (void)both.packer->steps(); });
    refused("most_steps", [&] { (void)both.packer->most_steps(); });
    refused("steps_in", [&] { (void)both.packer->steps_in(0); });
    refused("bytes", [&] { (void)both.packer->bytes(); });
    refused("sequence", [&] { (void)both.packer->sequence(); });
    both.packer.reset();
    const Writer gone = std::move(writer);
    return all;
  });
  EXPECT_EQ(both.ship().steps, 3U);
}

}  // namespace
}  // namespace reprise::test
