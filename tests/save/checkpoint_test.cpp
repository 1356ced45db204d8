#include "testing/fixtures/checkpoint_error.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/laws/own_selectors.hpp"
#include "testing/program/sanitizer.hpp"
#include "testing/test.hpp"
#include "testing/worlds/replayed.hpp"

#include <oneapi/tbb/task_group.h>

namespace reprise::test {
namespace {

using Kind = CheckpointError::Kind;

Options options_with(const Window& window, const std::vector<Selector>& selectors) {
  return {.capacity_steps = 400,
          .window = window,
          .selectors = selectors,
          .max_writers = 4,
          .chunk_steps = 24,
          .shards = 3,
          .key_tag = 7};
}

struct Case {
  std::string name;
  Options options;
};

std::vector<Case> cases() {
  std::vector<Case> all{
      {"Transitions", options_with(Transitions{}, {kRawProportional})},
      {"NStepStacked",
       options_with(Transitions{.n_step = 3, .frame_stack = 2}, {Proportional{}, Uniform{}})},
      {"Sequences", options_with(Sequences{.length = 6, .period = 3}, {kRawProportional})},
      {"Overlap", options_with(Sequences{.length = 5,
                                         .period = 2,
                                         .burn_in = 1,
                                         .end = SequenceEnd::Overlap,
                                         .n_step = 2,
                                         .frame_stack = 3},
                               {Uniform{}})},
      {"Recency", options_with(Transitions{}, {Recency{.p = 0.1F}})},
      {"Mixture", options_with(Transitions{}, {Mixture{}})},
      {"FifoSelector", options_with(Transitions{}, {Fifo{}})},
      {"Lifo", options_with(Transitions{.n_step = 2}, {Lifo{}})},
      {"MaxHeap", options_with(Transitions{}, {MaxHeap{}})},
      {"MinHeap", options_with(Transitions{}, {MinHeap{}, Proportional{.alpha = 0.5F}})}};
  Options limited = options_with(Transitions{}, {kRawProportional});
  limited.max_times_sampled = 3;
  all.push_back({"MaxTimesSampled", limited});
  Options indexed = options_with(Transitions{}, {kRawProportional});
  indexed.episode_index = true;
  indexed.rate_limiter = SampleToInsertRatio{.samples_per_insert = 3.0, .error_buffer = 2000.0};
  all.push_back({"IndexAndRatio", indexed});
  return all;
}

class Resume : public testing::TestWithParam<Case> {};

TEST_P(Resume, IsExactFromAnEpisodeBoundary) {
  for (std::uint64_t seed = 1; seed <= scaled(20, 4); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const ScratchDirectory directory;
    RandomRun first(GetParam().options, 3, seed);
    first.run_steps(100 + 97 * seed);
    first.end_episodes();
    first.save(directory.path());
    RandomRun second(directory.path(), first);
    const Stats a = first.replay().stats();
    const Stats b = second.replay().stats();
    EXPECT_EQ(a.committed_steps, b.committed_steps);
    EXPECT_EQ(a.evicted_steps, b.evicted_steps);
    EXPECT_EQ(a.resident_steps, b.resident_steps);
    EXPECT_EQ(a.items, b.items);
    EXPECT_EQ(a.sampled_items, b.sampled_items);
    EXPECT_EQ(b.pending_steps, 0U);
    std::vector<RandomRun::RecordedBatch> gone_on;
    std::vector<RandomRun::RecordedBatch> resumed;
    first.run_steps(600, &gone_on);
    second.run_steps(600, &resumed);
    ASSERT_GT(gone_on.size(), 10U);
    ASSERT_EQ(gone_on.size(), resumed.size());
    for (std::size_t i = 0; i < gone_on.size(); ++i) {
      ASSERT_EQ(gone_on[i], resumed[i]) << "batch " << i;
    }
  }
}

TEST_P(Resume, OfResumedRunsLosesNothing) {
  const ScratchDirectory directory;
  RandomRun first(GetParam().options, 3, 11);
  first.run_steps(500);
  first.end_episodes();
  first.save(directory.path());
  auto latest = std::make_unique<RandomRun>(directory.path(), first);
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    latest->run_steps(20);
    latest->end_episodes();
    const std::size_t size = latest->replay().size();
    const Stats before = latest->replay().stats();
    const SaveResult saved = latest->save(directory.path());
    EXPECT_GT(saved.chunks_reused, 0U);
    latest = std::make_unique<RandomRun>(directory.path(), *latest);
    EXPECT_EQ(latest->replay().size(), size);
    EXPECT_EQ(latest->replay().stats().items, before.items);
    EXPECT_EQ(latest->replay().stats().committed_steps, before.committed_steps);
  }
}

INSTANTIATE_TEST_SUITE_P(Options, Resume, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

TEST(Checkpoint, KeepsKeysFromBeforeAndRefusesLaterOnes) {
  const ScratchDirectory directory;
  NumberedBuffer line;
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 40);
  line.append(writer, 40, End::Terminated);
  const std::map<std::uint64_t, ItemKey> before = line.keys();
  line.replay.save(directory.path());
  std::set<ItemKey> after;
  for (std::uint64_t i = 0; i < 300; i += 20) {
    line.append_many(writer, 100 + i, 20);
    for (const auto& [number, key] : line.keys()) {
      if (number >= 100) {
        after.insert(key);
      }
    }
  }
  ReplayBuffer loaded = ReplayBuffer::load(directory.path()).buffer;
  std::vector<ItemKey> keys;
  for (const auto& [number, key] : before) {
    keys.push_back(key);
  }
  const std::vector<float> ones(after.size() + keys.size(), 1.0F);
  EXPECT_EQ(loaded.update_priorities(keys, std::span(ones).first(keys.size())).applied,
            keys.size());
  const std::vector<ItemKey> late(after.begin(), after.end());
  // These keys stay stale, whatever is appended now.
  Writer again = loaded.writer();
  for (std::uint64_t i = 0; i < 300; i += 20) {
    again.begin_episode();
    again.now(line.id) = 1000;
    for (std::uint64_t k = 0; k < 20; ++k) {
      again.now(line.action) = 0;
      again.now(line.reward) = 0;
      again.next(line.id) = 1001 + k;
      ASSERT_EQ(again.commit(), CommitStatus::Committed);
    }
    EXPECT_EQ(loaded.update_priorities(late, std::span(ones).first(late.size())).applied, 0U);
  }
}

TEST(Checkpoint, OfAnEpisodeUnderWayEndsItAtTheLastStepThatAWindowReads) {
  for (const std::uint32_t n_step : {1U, 3U}) {
    SCOPED_TRACE(testing::Message() << n_step << " steps");
    const ScratchDirectory directory;
    NumberedBuffer line(SmallOptions{.window = Transitions{.n_step = n_step}});
    Writer writer = line.replay.writer();
    line.append_many(writer, 0, 10);
    line.replay.save(directory.path());
    ReplayBuffer loaded = ReplayBuffer::load(directory.path()).buffer;
    EXPECT_EQ(loaded.size(), 10U);
    Sampler sampler = loaded.sampler();
    const SampleResult batch = require_batch(sampler.sample(500, kNoWait));
    for (std::size_t i = 0; i < batch->size(); ++i) {
      const std::uint64_t number = batch->now(line.id)[i];
      const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(n_step, 10 - number));
      EXPECT_EQ(batch->lengths()[i], length);
      EXPECT_EQ(batch->next(line.id)[i], number + length);
      EXPECT_GT(batch->discounts()[i], 0.0F);  // The episode was truncated.
    }
    // The writer continues the chunk after the truncated episode.
    Writer again = loaded.writer();
    again.begin_episode();
    again.now(line.id) = 100;
    again.now(line.action) = 0;
    again.now(line.reward) = 0;
    again.next(line.id) = 101;
    EXPECT_EQ(again.commit(End::Terminated), CommitStatus::Committed);
    EXPECT_EQ(loaded.size(), 11U);
  }
}

TEST(Checkpoint, WritesOnlyWhatChanged) {
  const ScratchDirectory directory;
  NumberedBuffer line(SmallOptions{.capacity_steps = 4096, .chunk_steps = 64});
  line.append_many(0, 5000);
  const SaveResult full = line.replay.save(directory.path());
  EXPECT_GE(full.chunks_written, 64U);
  EXPECT_EQ(full.chunks_reused, 0U);
  const SaveResult same = line.replay.save(directory.path());
  EXPECT_LE(same.chunks_written, 1U);
  EXPECT_EQ(same.chunks_written + same.chunks_reused, full.chunks_written);
  line.append_many(5000, 64);
  EXPECT_LE(line.replay.save(directory.path()).chunks_written, 3U);
  ReplayBuffer loaded = ReplayBuffer::load(directory.path()).buffer;
  EXPECT_LE(loaded.save(directory.path()).chunks_written, 1U);
}

template <class Call>
Kind error_kind_of(Call&& call, const std::string& words) {
  const CheckpointError error = checkpoint_error_of(call);
  EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  return error.kind();
}

TEST(Checkpoint, RefusesAnotherSchemaAndOtherOptions) {
  const ScratchDirectory directory;
  NumberedBuffer line;
  line.append_many(0, 10);
  line.replay.save(directory.path());

  Schema other;
  other.observation<float>("id", {2});
  ReplayBuffer another(other, SmallOptions{});
  EXPECT_EQ(error_kind_of([&] { another.restore(directory.path()); }, "'id'"), Kind::Mismatch);
  Options larger = SmallOptions{};
  larger.capacity_steps += 1;
  NumberedBuffer two(larger);
  two.append_many(0, 5);
  EXPECT_EQ(error_kind_of([&] { two.replay.restore(directory.path()); }, "capacity_steps"),
            Kind::Mismatch);
  EXPECT_EQ(two.replay.size(), 5U);  // The refused restore has not changed the buffer.
  EXPECT_EQ(two.append(5), CommitStatus::Committed);
  EXPECT_EQ(error_kind_of([&] { (void)ReplayBuffer::load(directory.path() + "/none"); }, "none"),
            Kind::Missing);
  EXPECT_THROW((void)line.replay.sampler({.resume = 0}), std::invalid_argument);
}

TEST(Checkpoint, IsRestoredIntoABufferThatRequiresFiniteValuesAsBefore) {
  for (const bool requires_finite : {false, true}) {
    const ScratchDirectory directory;
    Schema schema;
    const auto x = schema.observation<float>("x");
    schema.require_finite(!requires_finite);
    ReplayBuffer(schema, SmallOptions{}).save(directory.path());
    schema.require_finite(requires_finite);
    ReplayBuffer replay(schema, SmallOptions{});
    replay.restore(directory.path());
    EXPECT_EQ(replay.schema().requires_finite(), requires_finite);
    Writer writer = replay.writer();
    writer.begin_episode();
    writer.now(x) = std::numeric_limits<float>::quiet_NaN();
    writer.next(x) = 0.0F;
    if (requires_finite) {
      EXPECT_THROW((void)writer.commit(), std::invalid_argument);
    } else {
      EXPECT_EQ(writer.commit(), CommitStatus::Committed);
    }
  }
}

TEST(Checkpoint, BringsStrategiesOfTheUsersOwnBackIntoABufferThatHasThem) {
  const ScratchDirectory directory;
  NumberedBuffer line(SmallOptions{.selectors = {Uniform{}, CustomPower{}}});
  line.append_many(0, 20, [&](std::uint64_t i) { return static_cast<float>(1 + i); });
  const auto before = line.probabilities(4096, 1);
  line.replay.save(directory.path());
  EXPECT_EQ(error_kind_of([&] { (void)ReplayBuffer::load(directory.path()); }, "selector 1"),
            Kind::Mismatch);
  NumberedBuffer other;
  EXPECT_EQ(error_kind_of([&] { other.replay.restore(directory.path()); }, "selectors"),
            Kind::Mismatch);
  line.replay.restore(directory.path());
  EXPECT_EQ(line.probabilities(4096, 1), before);
}

/// A writer that is destroyed before it begins an episode leaves its chunk to other writers. Such a
/// writer may be in the middle of an episode, whose last rows it then repeats in the chunk.
TEST(Checkpoint, ARestoredChunkWithLittleRoomIsNotLeftToWritersInTheMiddleOfAnEpisode) {
  for (std::uint64_t steps = 8; steps < 15; ++steps) {
    SCOPED_TRACE(testing::Message() << steps << " steps");
    const ScratchDirectory directory;
    NumberedBuffer line(
        SmallOptions{.window = Transitions{.n_step = 3, .frame_stack = 2}, .chunk_steps = 16});
    Writer writer = line.replay.writer();
    line.append_many(writer, 0, steps - 1);
    line.append(writer, steps - 1, End::Truncated);
    line.replay.save(directory.path());
    line.replay.restore(directory.path());
    const auto before = line.numbers();
    { const Writer unused = line.replay.writer(); }
    Writer other = line.replay.writer();
    line.append_many(other, 100, 40);
    line.append(other, 140, End::Truncated);
    auto all = line.numbers();
    const auto added = number_range(100, 141);
    ASSERT_EQ(all.size(), before.size() + added.size());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), all.begin()));
    EXPECT_TRUE(std::equal(added.begin(), added.end(), all.begin() + std::ssize(before)));
    Sampler sampler = line.replay.sampler();
    const SampleResult batch = require_batch(sampler.sample(400, kNoWait));
    for (std::size_t i = 0; i < batch->size(); ++i) {
      EXPECT_EQ(batch->next(line.id)[2 * i + 1],
                batch->now(line.id)[2 * i + 1] + batch->lengths()[i]);
    }
  }
}

TEST(Checkpoint, LoadedTwiceGivesOtherKeys) {
  const ScratchDirectory directory;
  NumberedBuffer line;
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 10);
  line.append(writer, 10, End::Truncated);
  line.replay.save(directory.path());
  std::set<ItemKey> keys;
  for (std::size_t load = 1; load <= 5; ++load) {
    line.replay.restore(directory.path());
    Writer again = line.replay.writer();
    line.append_many(again, 100, 40);
    for (const auto& [number, key] : line.keys()) {
      if (number >= 100) {
        EXPECT_TRUE(keys.insert(key).second) << "load " << load << ", item " << number;
      }
    }
  }
}

TEST(Checkpoint, KeepsTheHighestPriorityEverSeen) {
  for (const Selector& selector :
       {Selector(MinHeap{}), Selector(MaxHeap{}), Selector(kRawProportional)}) {
    const ScratchDirectory directory;
    NumberedBuffer line(
        SmallOptions{.capacity_steps = 8, .selectors = {selector}, .chunk_steps = 4});
    Writer writer = line.replay.writer();
    line.append(writer, 0, 0.5F);
    (void)line.replay.size();
    line.append_many(writer, 1, 12);  // These items get the highest priority, 0.5.
    line.append(writer, 13, End::Truncated);
    const auto before = line.numbers();
    line.replay.save(directory.path());
    const Stats stats = line.replay.stats();
    line.replay.restore(directory.path());
    Writer again = line.replay.writer();
    line.append(again, 20, End::Truncated);
    std::vector<ItemKey> keys = line.key_list();
    // The order shows the new item's priority, 0.5: an item of 0.6 is first in one heap and last in
    // the other.
    EXPECT_EQ(line.replay.stats().committed_steps, stats.committed_steps + 1);
    const std::size_t raised = keys.size() - 2;
    line.replay.update_priorities(std::span(keys).subspan(raised, 1), std::vector<float>{0.6F});
    Sampler sampler = line.replay.sampler();
    const SampleResult batch = require_batch(sampler.sample(keys.size() - 1, kNoWait));
    const auto drawn = batch->keys();
    const bool is_drawn = std::find(drawn.begin(), drawn.end(), keys[raised]) != drawn.end();
    if (selector.target<MinHeap>() != nullptr) {
      EXPECT_FALSE(is_drawn);
    } else if (selector.target<MaxHeap>() != nullptr) {
      EXPECT_EQ(drawn.front(), keys[raised]);
    }
  }
}

TEST(Checkpoint, AndBatchesAreWholeWithinACancelledGroupOfTasks) {
  if (kThreadSanitizer) {
    GTEST_SKIP() << "oneTBB is not instrumented";
  }
  constexpr std::size_t kSteps = 600;
  const ScratchDirectory directory;
  Schema schema;
  const auto state = schema.observation<float>("state", {2048});
  const Reward reward = schema.reward("reward");
  ReplayBuffer replay(schema, {.capacity_steps = kSteps, .shards = 3});
  {
    Writer writer = replay.writer();
    writer.begin_episode();
    std::ranges::fill(writer.now(state), 1.0F);
    for (std::size_t i = 0; i < kSteps; ++i) {
      writer.now(reward) = 0.0F;
      std::ranges::fill(writer.next(state), 1.0F);
      writer.commit(i + 1 == kSteps ? End::Truncated : End::Continue);
    }
  }
  // A task may still run when its group is cancelled, as after another task threw.
  const auto in_cancelled_group = [](const auto& call) {
    oneapi::tbb::task_group group;
    group.run_and_wait([&] {
      group.cancel();
      call();
    });
  };
  const auto expect_whole = [&](ReplayBuffer& buffer) {
    ASSERT_EQ(buffer.size(), kSteps);
    Sampler sampler = buffer.sampler({.parallel_gather_bytes = 1});
    const SampleResult batch = require_batch(sampler.sample(kSteps, kNoWait));
    EXPECT_TRUE(std::ranges::all_of(batch->now(state), [](float x) { return x == 1.0F; }));
  };
  in_cancelled_group([&] {
    expect_whole(replay);
    EXPECT_GT(replay.save(directory.path()).bytes_written, kSteps);
    LoadResult loaded = ReplayBuffer::load(directory.path());
    expect_whole(loaded.buffer);
  });
}

}  // namespace
}  // namespace reprise::test
