#include "testing/fixtures/scratch_directory.hpp"
#include "testing/test.hpp"
#include "testing/worlds/world.hpp"

/// Checkpoints of buffers whose items are streams, which continue across the ends of episodes.
namespace reprise::test {
namespace {

struct Stream {
  Writer writer;
  std::vector<StreamStep> steps = {};
};

void append(const World& world, Stream& to, std::size_t steps, Rng& rng) {
  constexpr End kEnds[] = {End::Terminated, End::Truncated};
  for (std::size_t i = 0; i < steps; ++i) {
    if (!to.writer.in_episode() || rng.chance(0.1)) {
      world.begin(to.writer);
    }
    to.steps.push_back({World::name_of(to.writer.episode_id(), to.writer.episode_steps()),
                        rng.chance(0.2) ? kEnds[rng.below(2)] : End::Continue});
    world.write_step(to.writer);
    world.write_states(to.writer);
    ASSERT_EQ(to.writer.commit(to.steps.back().end), CommitStatus::Committed);
  }
}

/// Expects each item of the stream to be as it was written, and no other item.
void expect_items(const World& world, const ReplayBuffer& replay,
                  std::span<const StreamStep> steps) {
  const Window window = replay.options().window;
  const auto& sequences = std::get<Sequences>(window);
  for (std::size_t first = 0; first < steps.size(); ++first) {
    const StepName& name = steps[first].name;
    SCOPED_TRACE(name.words());
    const Batch batch = replay.episodes().gather(name.episode_id, name.position, 1);
    const bool begins = first % sequences.period == 0 && first + sequences.length <= steps.size();
    ASSERT_EQ(batch.lengths()[0], begins ? sequences.length : 0);
    if (begins) {
      ASSERT_EQ(world.mismatch(batch, 0, window, steps.subspan(first, sequences.length)), "");
    }
  }
}

TEST(StreamCheckpoint, HasTheItemsDecidedAndItsWritersBeginNewStreams) {
  for (std::uint64_t seed = 1; seed <= scaled(24, 6) && !HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const ScratchDirectory directory;
    const World world(
        {.states = seed % 3 != 0, .compressed = seed % 2 == 0, .mutable_columns = seed % 3 == 0});
    Rng rng(seed);
    const auto length = static_cast<std::uint32_t>(rng.between(1, 6));
    ReplayBuffer replay(
        world.schema(),
        {.capacity_steps = 2000,
         .window = Sequences{.length = length,
                             .period = static_cast<std::uint32_t>(rng.between(1, 4)),
                             .end = SequenceEnd::Continue,
                             .frame_stack = 2},
         .selectors = {Uniform{}, Fifo{}},
         .episode_index = true,
         .max_writers = 3,
         .chunk_steps = 2 * length + 2 + rng.below(9),
         .shards = 2});
    std::vector<Stream> all;
    for (int w = 0; w < 3; ++w) {
      all.push_back({replay.writer()});
      append(world, all.back(), rng.between(1, 60), rng);
    }
    replay.save(directory.path());
    append(world, all[0], 20, rng);  // These steps are not in the checkpoint.
    all[0].steps.resize(all[0].steps.size() - 20);
    ReplayBuffer loaded = ReplayBuffer::load(directory.path()).buffer;
    EXPECT_EQ(loaded.stats().pending_steps, 0U);
    std::vector<Stream> gone_on;
    for (int w = 0; w < 3; ++w) {
      gone_on.push_back({loaded.writer()});
      append(world, gone_on.back(), 40, rng);
    }
    for (const std::vector<Stream>& streams : {std::cref(all), std::cref(gone_on)}) {
      for (const Stream& stream : streams) {
        ASSERT_NO_FATAL_FAILURE(expect_items(world, loaded, stream.steps));
      }
    }
    loaded.save(directory.path());
    const ReplayBuffer again = ReplayBuffer::load(directory.path()).buffer;
    for (const Stream& stream : gone_on) {
      ASSERT_NO_FATAL_FAILURE(expect_items(world, again, stream.steps));
    }
  }
}

}  // namespace
}  // namespace reprise::test
