#include "buffer/buffer_core.hpp"
#include "goals.hpp"
#include "testing/fixtures/core_of.hpp"
#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"

/// Relabelled goals in episodes that are spread over several chunks.
namespace reprise::test {
namespace {

/// Appends `episodes` whole episodes of `steps` steps, numbered from `first` on. An episode has
/// steps + 1 observations; those of episode e are consecutive numbers from e * (steps + 1) on.
void append_episodes(NumberedBuffer& line, Writer& writer, std::uint64_t first,
                     std::size_t episodes, std::size_t steps) {
  for (std::uint64_t e = first; e < first + episodes; ++e) {
    for (std::uint64_t i = 0; i < steps; ++i) {
      line.append(writer, e * (steps + 1) + i, i + 1 == steps ? End::Terminated : End::Continue);
    }
  }
}

/// Expects `Final` goals to be the last observations of their episodes of `steps` steps.
void expect_final_goals(NumberedBuffer& line, std::size_t steps) {
  const std::map<std::uint64_t, ItemKey> keys = line.keys();
  Hindsight final_goals =
      line.replay.hindsight(line.id, {.goal = HindsightGoal::Final, .share = 1.0F});
  std::vector<ItemKey> key_list;
  for (const auto& [number, key] : keys) {
    key_list.push_back(key);
  }
  const Goals goals = relabel(final_goals, key_list);
  EXPECT_EQ(goals.relabelled, key_list.size());
  std::size_t too_early = 0;
  std::size_t i = 0;
  for (const auto& [number, key] : keys) {
    const std::uint64_t goal = goals.goals[i];
    ASSERT_EQ(goal, number + static_cast<std::uint64_t>(goals.distances[i]));
    ASSERT_LE(goal, number - number % (steps + 1) + steps);
    // No step begins at an episode's last observation. So a goal at which an item begins came from
    // a search that ended too early.
    too_early += keys.contains(goal) ? 1U : 0U;
    ++i;
  }
  EXPECT_EQ(too_early, 0U) << "of " << keys.size();
  EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
}

TEST(HindsightOverChunks, FinalGoalsOfLongEpisodesAreManyChunksAway) {
  for (const std::uint32_t shards : {1U, 4U}) {
    Options options = options_of(shards, 16);
    options.window = Transitions{.frame_stack = shards};
    options.capacity_steps = 500;
    NumberedBuffer line(options);
    Writer writer = line.replay.writer();
    append_episodes(line, writer, 0, 20, 170);
    expect_final_goals(line, 170);
    // An open episode ends at its last row so far, which is at every place in a chunk in turn.
    for (std::uint64_t i = 0; i < 40; ++i) {
      line.append(writer, 20 * 171 + i);
      expect_final_goals(line, 170);
    }
  }
}

/// Counts the distances of goals for one item.
std::map<std::int32_t, int> distances_of(NumberedBuffer& line, HindsightGoal goal, ItemKey key) {
  Hindsight hindsight = line.replay.hindsight(line.id, {.goal = goal, .share = 1.0F, .seed = 9});
  return count_distances(hindsight, key, 20'000);
}

/// Takes all fresh chunks out of the pool, so that no writer gets them before they are returned.
class WithheldChunks {
 public:
  explicit WithheldChunks(NumberedBuffer& line)
      : pool_(core_of(line.replay)->shards()[0].chunks()) {
    int error = 0;
    for (std::uint32_t c = pool_.take_fresh(error); c != storage::kNil;
         c = pool_.take_fresh(error)) {
      chunks_.push_back(c);
    }
  }
  void return_one() {
    pool_.reclaim(chunks_.back());
    chunks_.pop_back();
  }

 private:
  shard::ChunkPool& pool_;
  std::vector<std::uint32_t> chunks_;
};

TEST(HindsightOverChunks, AnEpisodeWhoseWriterHadToWaitForItsNextChunkIsFollowed) {
  NumberedBuffer line(options_of(1, 16));
  Writer writer = line.replay.writer({.timeout = 0ns});
  line.append_many(writer, 100, 14);
  WithheldChunks chunks(line);
  ASSERT_EQ(line.append(writer, 114), CommitStatus::Committed);
  ASSERT_EQ(line.append(writer, 115), CommitStatus::TimedOut);
  EXPECT_EQ(distances_of(line, HindsightGoal::Final, line.keys().at(103)).begin()->first, 12);
  chunks.return_one();
  ASSERT_EQ(line.append(writer, 115), CommitStatus::Committed);
  const std::map<std::uint64_t, ItemKey> keys = line.keys();
  expect_uniform(distances_of(line, HindsightGoal::Future, keys.at(103)), 1, 13);
  expect_uniform(distances_of(line, HindsightGoal::Episode, keys.at(115)), -15, 1);
}

/// The late writer has to wait for its next chunk. When its episode goes on, its last chunk already
/// holds steps of another writer.
TEST(HindsightOverChunks, AnEpisodeWhoseWriterHadToWaitDoesNotCutAnotherEpisode) {
  NumberedBuffer line(options_of(1, 16));
  Writer late = line.replay.writer({.timeout = 0ns});
  line.append_many(late, 100, 14);
  WithheldChunks chunks(line);
  line.append_many(late, 114, 1);
  const std::uint32_t chunk = line.keys().at(100).slot() / 16;
  line.replay.clear();
  Writer other = line.replay.writer();
  line.append_many(other, 200, 14);
  chunks.return_one();
  line.append_many(other, 214, 3);
  chunks.return_one();
  line.append_many(late, 115, 3);
  const std::map<std::uint64_t, ItemKey> keys = line.keys();
  ASSERT_EQ(keys.at(200).slot() / 16, chunk);
  EXPECT_EQ(distances_of(line, HindsightGoal::Final, keys.at(200)).begin()->first, 17);
  expect_uniform(distances_of(line, HindsightGoal::Episode, keys.at(216)), -16, 1);
  // The steps that the late writer had in that chunk have been evicted.
  expect_uniform(distances_of(line, HindsightGoal::Episode, keys.at(116)), -1, 2);
}

TEST(HindsightOverChunks, GoalsAreFoundAfterALoad) {
  for (const std::uint32_t shards : {1U, 3U}) {
    const ScratchDirectory directory;
    Options options = options_of(shards, 16);
    options.window = Transitions{.frame_stack = shards};
    options.capacity_steps = 300;
    NumberedBuffer line(options);
    Writer writer = line.replay.writer();
    append_episodes(line, writer, 0, 20, 40);
    line.append_many(writer, 20 * 41, 30);
    line.replay.save(directory.path());
    const std::map<std::uint64_t, ItemKey> saved = line.keys();
    line.replay.clear();
    line.replay.restore(directory.path());
    expect_final_goals(line, 40);
    const std::uint64_t step = 18 * 41 + 20;
    ASSERT_EQ(line.keys(), saved);
    expect_uniform(distances_of(line, HindsightGoal::Episode, saved.at(step)), -20, 20);
    // Episodes that begin after the load are followed too.
    Writer again = line.replay.writer();
    append_episodes(line, again, 30, 5, 40);
    expect_final_goals(line, 40);
  }
}

TEST(HindsightOverChunks, GoalsStopBeforeTheFirstEvictedChunkOfAnEpisode) {
  for (const std::uint32_t frame_stack : {1U, 3U}) {
    Options options = options_of(1, 16);
    options.window = Transitions{.frame_stack = frame_stack};
    options.remover = LowestPriority{};
    NumberedBuffer line(options);
    // The number of the first step in the third chunk, after the repeated context rows.
    const std::uint64_t third = 31 - frame_stack;
    line.append_many(0, 60, [=](std::uint64_t number) {
      // The second chunk has the lowest priorities, so it is evicted first.
      return number < 15 || number >= third ? 1.0F : 0.0625F;
    });
    const std::uint32_t evicted = line.keys().at(20).slot() / 16;
    const float low = 0.125F;  // Later steps are evicted next, so that the other chunks stay.
    line.append(60, End::Truncated, {&low, 1});
    std::map<std::uint64_t, ItemKey> keys;
    std::uint64_t number = 100;
    const auto append_short_episode = [&] {
      line.append(number, End::Continue, {&low, 1});
      line.append(number + 1, End::Terminated, {&low, 1});
      number += 3;
    };
    // Appends until the memory of the second chunk holds other steps. The row with which the part
    // of the long episode began there then holds one of these steps or, if stacks repeat earlier
    // rows, the final observation of another episode.
    while (keys.empty() || keys.rbegin()->second.slot() / 16 != evicted) {
      ASSERT_LT(number, 1000U);
      append_short_episode();
      keys = line.keys();
    }
    ASSERT_TRUE(keys.contains(3) && !keys.contains(20) && keys.contains(33));
    expect_uniform(distances_of(line, HindsightGoal::Final, keys.at(3)), 12, 12);
    expect_uniform(distances_of(line, HindsightGoal::Episode, keys.at(33)),
                   static_cast<std::int32_t>(third) - 33, 61 - 33);
    for (int i = 0; i < 10; ++i) {
      append_short_episode();  // Fills the chunk.
    }
    line.replay.clear();
    EXPECT_EQ(line.replay.stats().retired_pinned, 0U);
  }
}

/// A damaged checkpoint may give the last row of a full chunk the header of a step, whose next
/// observation would lie in the following row, beyond the chunk.
TEST(HindsightOverChunks, NoGoalIsBehindTheLastRowOfAChunk) {
  NumberedBuffer line(options_of(1, 16));
  line.append_many(100, 14);
  line.append(114, End::Terminated);
  const ItemKey key = line.keys().at(100);
  storage::ChunkStore& store = core_of(line.replay)->store();
  const std::uint32_t chunk = store.place(key.slot()).chunk;
  storage::ItemHeader header;
  std::memcpy(&header, store.row(chunk, 0), sizeof(header));
  header = storage::ItemHeader::make(header.episode, 15, 1);
  std::memcpy(store.row(chunk, 15), &header, sizeof(header));
  expect_uniform(distances_of(line, HindsightGoal::Final, key), 15, 15);
  expect_uniform(distances_of(line, HindsightGoal::Future, key), 1, 15);
}

}  // namespace
}  // namespace reprise::test
