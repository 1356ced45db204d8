#include "testing/test.hpp"
#include "testing/worlds/window_rule.hpp"
#include "testing/worlds/world.hpp"

/// Compares sequences with frame stacks and n-step returns with a model: every item that an episode
/// promises is read, and everything that a batch says of it is checked.
namespace reprise::test {
namespace {

struct Written {
  std::uint64_t steps = 0;
  End end = End::Continue;
};

/// Appends episodes of each length up to 14, which end by termination, truncation or destruction.
std::map<std::uint64_t, Written> fill(const World& world, ReplayBuffer& replay) {
  std::map<std::uint64_t, Written> episodes;
  for (std::uint64_t steps = 1; steps <= 14; ++steps) {
    constexpr End kEnds[] = {End::Terminated, End::Truncated, End::Continue};
    const End end = kEnds[steps % 3];
    Writer writer = replay.writer();
    world.begin(writer);
    for (std::uint64_t t = 0; t < steps; ++t) {
      world.write_step(writer);
      EXPECT_EQ(writer.commit(t + 1 == steps ? end : End::Continue), CommitStatus::Committed);
    }
    episodes[writer.episode_id()] = {steps, end};
  }
  return episodes;
}

using Combination = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, SequenceEnd>;

class StackedSequences : public testing::TestWithParam<Combination> {};

INSTANTIATE_TEST_SUITE_P(All, StackedSequences,
                         testing::Combine(testing::Values(1U, 2U, 3U, 4U),
                                          testing::Values(0U, 1U, 2U, 3U, 4U, 5U),
                                          testing::Values(1U, 2U, 5U, 8U),
                                          testing::Values(SequenceEnd::ZeroPad, SequenceEnd::Drop,
                                                          SequenceEnd::Overlap)));

TEST_P(StackedSequences, ShowWhatTheirEpisodesHad) {
  const auto& [frame_stack, n_step, period, end] = GetParam();
  const World world({.discount = frame_stack % 2 == 0, .compressed = (n_step + period) % 2 == 0});
  for (const StackStart start : {StackStart::RepeatFirst, StackStart::Zeros}) {
    const Window window = Sequences{.length = 4,
                                    .period = period,
                                    .burn_in = 1,
                                    .end = end,
                                    .n_step = n_step,
                                    .discount = 0.9F,
                                    .frame_stack = frame_stack,
                                    .stack_start = start};
    ReplayBuffer replay(world.schema(), {.capacity_steps = 200,
                                         .window = window,
                                         .selectors = {Uniform{}},
                                         .episode_index = true,
                                         .chunk_steps = 5 + frame_stack + period % 3});
    for (const auto& [episode, written] : fill(world, replay)) {
      auto items = WindowRule(window).items(
          written.steps, written.end == End::Continue ? EpisodeState::CutOff : EpisodeState::Ended);
      const Batch whole = replay.episodes().gather(episode, 0, written.steps);
      Batch unique = replay.make_batch(written.steps, nullptr, true);
      replay.gather(whole.keys(), unique);
      for (std::size_t i = 0; i < written.steps; ++i) {
        ASSERT_EQ(whole.lengths()[i], items[i]) << "the item that begins with step " << i;
        const bool terminated = written.end == End::Terminated && i + items[i] == written.steps;
        if (items[i] != 0) {
          ASSERT_EQ(world.mismatch(whole, i, window, terminated), "");
          ASSERT_EQ(world.mismatch(unique, i, window, terminated), "");
        }
      }
    }
  }
}

/// The cases are single transitions, sequences, and compressed sequences.
TEST(UniqueFrames, OfALargeBatchAreThoseOfWholeStacks) {
  constexpr std::size_t kOddFrame =
      1031;  // It is odd, so that frames begin anywhere in a cache line.
  for (const int kind : {0, 1, 2}) {
    const bool sequences = kind != 0;
    const std::size_t items = sequences ? 500 : 1000;
    Schema schema;
    const auto frame = schema.observation<std::uint8_t>("frame", {kOddFrame});
    if (kind == 2) {
      schema.compress(frame);
    }
    const Window window = sequences ? Window(Sequences{.length = 7, .period = 1, .frame_stack = 3})
                                    : Window(Transitions{.n_step = 2, .frame_stack = 3});
    ReplayBuffer replay(schema,
                        {.capacity_steps = items, .window = window, .selectors = {Uniform{}}});
    Writer writer = replay.writer();
    const auto fill = [&](std::span<std::uint8_t> to, std::size_t number) {
      std::iota(to.begin(), to.end(), static_cast<std::uint8_t>(number * 31));
    };
    for (std::size_t step = 0; step < items; ++step) {
      if (!writer.in_episode()) {
        writer.begin_episode();
        fill(writer.now(frame), step);
      }
      fill(writer.next(frame), step + 1);
      writer.commit(step % 37 == 36 ? End::Truncated : End::Continue);
    }
    auto with =
        replay.sampler({.seed = 1, .unique_frames = true, .parallel_gather_bytes = kGatherAlone});
    auto without = replay.sampler({.seed = 1, .parallel_gather_bytes = kGatherAlone});
    const auto unique = with.sample(items);
    const auto whole = without.sample(items);
    ASSERT_GE(unique->frames(frame).size(), std::size_t{4} << 20U) << "it goes past the caches";
    for (std::size_t i = 0; i < items; ++i) {
      const std::size_t there = sequences ? whole->lengths()[i] : 1;
      for (std::size_t t = 0; t < there; ++t) {
        ASSERT_TRUE(std::ranges::equal(unique->now_stacks(frame).at(i, t),
                                       whole->now_stacks(frame).at(i, t)));
        ASSERT_TRUE(std::ranges::equal(unique->next_stacks(frame).at(i, t),
                                       whole->next_stacks(frame).at(i, t)));
      }
      const auto beyond = whole->next_stacks(frame)[i].subspan(there * 3 * kOddFrame);
      ASSERT_TRUE(std::ranges::all_of(beyond, [](std::uint8_t byte) { return byte == 0; }));
    }
  }
}

}  // namespace
}  // namespace reprise::test
