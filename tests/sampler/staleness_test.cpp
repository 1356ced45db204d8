#include "testing/fixtures/checkpoint_error.hpp"
#include "testing/fixtures/refusal.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

// Items whose policy version is more than `max_staleness` behind are outdated: no selector draws
// them. selector_laws_test.cpp and the conformance suite check the same with random calls.
namespace reprise::test {
namespace {

using Numbers = std::vector<std::uint64_t>;

/// Commits a step that was made by a policy of this version.
CommitStatus append(NumberedBuffer& line, Writer& writer, std::uint64_t number,
                    std::int64_t version) {
  writer.set_version(version);
  return line.append(writer, number);
}

/// Commits steps `first` to `end` - 1. The version of each is its number.
void append_as_versions(NumberedBuffer& line, std::uint64_t first, std::uint64_t end) {
  for (std::uint64_t number = first; number < end; ++number) {
    append(line, line.writer(), number, static_cast<std::int64_t>(number));
  }
}

/// An outdated item must not determine the highest priority in the buffer, even if the selector
/// keeps hidden items in its lists.
TEST(Staleness, LeavesNoPriorityBehind) {
  for (const Selector& selector :
       {Selector(kRawProportional), Selector(RankBased{}), Selector(MaxHeap{})}) {
    NumberedBuffer line(SmallOptions{.selectors = {selector}, .max_staleness = 0});
    line.append(0, 100.0F);
    line.writer().set_version(1);
    line.append(1, 2.0F);
    ASSERT_EQ(line.replay.size(), 2U);
    line.replay.set_version(1);
    line.append(2);  // This item gets the highest priority in the buffer.
    const std::vector<ItemKey> keys = line.key_list();
    std::vector<float> priorities(keys.size());
    EXPECT_EQ(line.replay.selector().priorities(keys, priorities), 2U);
    EXPECT_EQ(priorities, (std::vector{2.0F, 2.0F}));
  }
}

TEST(Staleness, LetsOutdatedItemsLeaveFirst) {
  NumberedBuffer line(SmallOptions{.capacity_steps = 64, .max_staleness = 0, .chunk_steps = 8});
  Writer old = line.replay.writer();
  Writer young = line.replay.writer();
  for (std::uint64_t i = 0; i < 32; ++i) {
    append(line, old, i, 1);
  }
  for (std::uint64_t i = 32; i < 64; ++i) {
    append(line, young, i, 0);  // These steps are later, but of an earlier version.
  }
  line.replay.set_version(1);
  EXPECT_EQ(line.numbers(), number_range(0, 32));
  for (std::uint64_t i = 64; i < 84; ++i) {
    append(line, old, i, 1);
  }
  Numbers expected = number_range(0, 32);
  for (std::uint64_t i = 64; i < 84; ++i) {
    expected.push_back(i);
  }
  EXPECT_EQ(line.numbers(), expected);
  EXPECT_EQ(line.replay.size(), 64U);
  EXPECT_EQ(line.replay.stats().outdated_items, 12U);
}

TEST(Staleness, SaysWhyASamplerFindsNothing) {
  NumberedBuffer line(SmallOptions{.max_staleness = 1, .rate_limiter = MinSize{4}});
  append_as_versions(line, 0, 10);
  line.replay.set_version(9);
  const SampleStatus status = as_lvalue(line.replay.sampler()).sample(2, kNoWait).status();
  EXPECT_EQ(status.code, SampleStatus::Code::TimedOut);
  EXPECT_EQ(status.items, 2U) << "a limiter counts what can be drawn";
  EXPECT_EQ(status.outdated, 8U);
  EXPECT_NE(
      status.message().find("2 of the 4 items needed; 8 more are outdated: over max_staleness "
                            "behind version 9"),
      std::string::npos)
      << status.message();
  NumberedBuffer other(SmallOptions{.max_staleness = 0, .rate_limiter = Unlimited{}});
  append_as_versions(other, 0, 3);
  other.replay.set_version(3);
  EXPECT_NE(as_lvalue(other.replay.sampler())
                .sample(1)
                .status()
                .message()
                .find("there are no items; 3 more are outdated"),
            std::string::npos);
}

TEST(Staleness, IsNamedWhateverElseHoldsASampler) {
  const auto expect_named = [](NumberedBuffer& line, std::size_t batch, const char* before) {
    const std::string said =
        as_lvalue(line.replay.sampler()).sample(batch, kNoWait).status().message();
    EXPECT_NE(said.find(before), std::string::npos) << said;
    EXPECT_NE(said.find("; 3 more are outdated: over max_staleness behind"), std::string::npos)
        << said;
  };
  NumberedBuffer ahead(
      SmallOptions{.max_staleness = 0, .rate_limiter = SampleToInsertRatio{.error_buffer = 16.0}});
  append_as_versions(ahead, 0, 4);
  ahead.replay.set_version(3);
  ASSERT_TRUE(as_lvalue(ahead.replay.sampler()).sample(12, kNoWait));
  expect_named(ahead, 12, "samples are ");
  NumberedBuffer limited(SmallOptions{.max_times_sampled = 3, .max_staleness = 0});
  append_as_versions(limited, 0, 3);
  for (std::uint64_t number = 3; number < 6; ++number) {
    append(limited, limited.writer(), number, 3);
  }
  limited.replay.set_version(3);
  ASSERT_TRUE(as_lvalue(limited.replay.sampler()).sample(2, kNoWait));
  expect_named(limited, 8, "7 of the 8 draws of this batch can be made");
}

TEST(Staleness, MakesRoomInAQueue) {
  NumberedBuffer line(SmallOptions{
      .selectors = {Fifo{}}, .max_times_sampled = 1, .max_staleness = 0, .rate_limiter = Queue{8}});
  Writer writer = line.replay.writer();
  writer.set_timeout({});
  writer.set_version(0);
  ASSERT_EQ(line.append_until_held(writer), 8U);
  writer.set_timeout(kNoTimeout);
  std::jthread held([&] { EXPECT_EQ(writer.commit(), CommitStatus::Committed); });
  yield_while([&] { return line.replay.stats().writers_for_limiter.waiting_now == 0; });
  line.replay.set_version(1);
}

TEST(Staleness, IsThatOfTheVersionWhichTheWriterGotLast) {
  Schema schema;
  const auto id = schema.observation<int>("id");
  const PolicyVersion version = schema.version("version");
  ReplayBuffer replay(schema, {.capacity_steps = 64, .window = Sequences{.length = 4}});
  Writer writer = replay.writer();
  writer.begin_episode();
  writer.now(id) = 0;
  for (int step = 0; step < 4; ++step) {
    if (step == 1) {
      writer.set_version(7);
    } else if (step == 3) {
      writer.now(version) = 2;  // The step has a version of its own, as a step from a dataset may.
    }
    writer.next(id) = step + 1;
    ASSERT_EQ(writer.commit(step == 3 ? End::Terminated : End::Continue), CommitStatus::Committed);
  }
  Sampler sampler = replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(1, kNoWait));
  EXPECT_TRUE(std::ranges::equal(batch->now(version), std::array<std::int64_t, 4>{0, 7, 7, 2}));
  EXPECT_EQ(writer.add_transition(End::Terminated, now(id, 1), next(id, 2)),
            CommitStatus::Committed)
      << "the version need not be named";
  EXPECT_EQ(writer.add_transition(End::Terminated, now(id, 1), now(version, 9), next(id, 2)),
            CommitStatus::Committed);
  const auto refuses = [](const auto& call) {
    expect_refusal<std::invalid_argument>(call, {"field 'version' is -1", "at least 0"});
  };
  refuses([&] { writer.add_transition(End::Continue, now(id, 1), now(version, -1), next(id, 2)); });
  writer.begin_episode();
  writer.now(id) = 0;
  writer.next(id) = 1;
  writer.now(version) = -1;
  refuses([&] { static_cast<void>(writer.commit()); });
  writer.now(version) = 0;
  EXPECT_EQ(writer.commit(), CommitStatus::Committed);
}

TEST(Staleness, IsRefusedWithoutAVersion) {
  Schema schema;
  schema.observation<int>("id");
  expect_refusal([&] { ReplayBuffer(schema, {.capacity_steps = 8, .max_staleness = 4}); },
                 {"max_staleness is 4", "no version", "declares it"});
  ReplayBuffer replay(schema, {.capacity_steps = 8});
  expect_refusal([&] { replay.set_version(1); }, {"no version"});
  Writer writer = replay.writer();
  expect_refusal([&] { writer.set_version(1); }, {"no version"});
  NumberedBuffer line(SmallOptions{.max_staleness = 1});
  expect_refusal([&] { line.replay.set_version(-1); }, {"-1", "at least 0"});
  expect_refusal([&] { line.writer().set_version(-1); }, {"-1", "at least 0"});
  expect_refusal([&] { line.schema.version("other"); }, {"second version", "'version'"});
  expect_refusal([&] { schema.declare("v", Role::Version, DType::I32); }, {"int64", "I64"});
}

TEST(Staleness, IsInACheckpoint) {
  const ScratchDirectory directory;
  NumberedBuffer line(SmallOptions{.max_staleness = 2});
  append_as_versions(line, 0, 10);
  line.replay.set_version(6);
  line.replay.save(directory.path());
  line.replay.restore(directory.path());
  EXPECT_EQ(line.numbers(), number_range(4, 10));
  EXPECT_EQ(line.replay.stats().version, 6U);
  EXPECT_EQ(line.replay.stats().outdated_items, 4U);
  EXPECT_EQ(*ReplayBuffer::load(directory.path()).buffer.options().max_staleness, 2U);
  NumberedBuffer narrower(SmallOptions{.max_staleness = 1});
  narrower.replay.restore(directory.path());
  EXPECT_EQ(narrower.numbers(), number_range(5, 10)) << "the number of the buffer counts";
  NumberedBuffer wider(SmallOptions{.max_staleness = 4});
  const CheckpointError refused =
      checkpoint_error_of([&] { wider.replay.restore(directory.path()); });
  EXPECT_EQ(refused.kind(), CheckpointError::Kind::Mismatch) << "its outdated items have no weight";
  EXPECT_NE(std::string(refused.what()).find("max_staleness is 2 in the checkpoint and 4 here"),
            std::string::npos)
      << refused.what();
  ReplayBuffer without(line.schema, SmallOptions{.selectors = {kRawProportional, Uniform{}}});
  const CheckpointError error = checkpoint_error_of([&] { without.restore(directory.path()); });
  EXPECT_EQ(error.kind(), CheckpointError::Kind::Mismatch);
  EXPECT_NE(std::string(error.what()).find("max_staleness is 2 in the checkpoint and None here"),
            std::string::npos)
      << error.what();
}

/// Versions at both ends of their range.
TEST(Staleness, HoldsOfAnyVersion) {
  constexpr auto kNewest = std::numeric_limits<std::int64_t>::max();
  NumberedBuffer line(SmallOptions{.max_staleness = 0});
  for (const std::int64_t version : {std::int64_t{0}, kNewest - 2, kNewest}) {
    append(line, line.writer(), static_cast<std::uint64_t>(version), version);
  }
  line.replay.set_version(kNewest - 1);
  EXPECT_EQ(line.numbers(), (Numbers{static_cast<std::uint64_t>(kNewest)}));
  line.replay.set_version(kNewest);
  EXPECT_EQ(line.replay.stats().items, 1U);
}

}  // namespace
}  // namespace reprise::test
