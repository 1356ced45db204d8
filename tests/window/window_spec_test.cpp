#include "window/window_spec.hpp"

#include "filled_chunks.hpp"
#include "testing/test.hpp"

namespace reprise::window {
namespace {

using test::expect_refusal;

WindowSpec spec(std::uint32_t n_step, std::uint32_t frame_stack) {
  return WindowSpec(Transitions{.n_step = n_step, .frame_stack = frame_stack});
}

TEST(WindowSpec, CountsTheRowsOfAWindow) {
  const WindowSpec one = spec(1, 1);
  EXPECT_EQ(one.ahead(), 1U);
  EXPECT_EQ(one.behind(), 0U);
  EXPECT_EQ(one.context_rows(), 1U);
  EXPECT_EQ(one.min_chunk_rows(), 2U);
  const WindowSpec many = spec(5, 4);
  EXPECT_EQ(many.ahead(), 5U);
  EXPECT_EQ(many.behind(), 3U);
  EXPECT_EQ(many.context_rows(), 8U);
  EXPECT_EQ(many.min_chunk_rows(), 9U);
}

TEST(WindowSpec, CountsTheRowsOfASequence) {
  const WindowSpec window(Sequences{.length = 5, .period = 2, .burn_in = 3});
  EXPECT_EQ(window.ahead(), 8U);
  EXPECT_EQ(window.behind(), 0U);
  EXPECT_EQ(window.min_chunk_rows(), 9U);
  EXPECT_EQ(window.values(traits(Role::Observation)), 8U);
  EXPECT_EQ(window.values(traits(Role::Column)), 8U);
  EXPECT_EQ(window.values(traits(Role::RecurrentState)), 1U);
  EXPECT_FALSE(window.every_step());
  EXPECT_FALSE(has_returns(Sequences{}));
  EXPECT_TRUE(continues(Sequences{.end = SequenceEnd::Continue}));
  EXPECT_EQ(window.target_count(), 1U);
  const WindowSpec stacked(Sequences{.length = 5, .burn_in = 3, .frame_stack = 4});
  EXPECT_EQ(stacked.ahead(), 8U);
  EXPECT_EQ(stacked.behind(), 3U);
  EXPECT_EQ(stacked.min_chunk_rows(), 12U);
  EXPECT_EQ(stacked.frames(), 12U);
  EXPECT_EQ(stacked.values(traits(Role::Observation)), 32U);
  EXPECT_EQ(stacked.values(traits(Role::Column)), 8U);
  EXPECT_EQ(stacked.values(traits(Role::RecurrentState)), 1U);
  const Sequences with_returns{.length = 5, .burn_in = 3, .n_step = 2};
  EXPECT_TRUE(has_returns(with_returns));
  EXPECT_EQ(WindowSpec(with_returns).target_count(), 8U);
}

/// Compares with the number of items that a writer decides step by step.
TEST(WindowSpec, CountsTheItemsOfAnEpisode) {
  for (const SequenceEnd end : {SequenceEnd::ZeroPad, SequenceEnd::Drop, SequenceEnd::Overlap}) {
    for (const Window& window :
         {Window(Transitions{.n_step = 3}),
          Window(Sequences{.length = 3, .period = 2, .burn_in = 1, .end = end})}) {
      const WindowSpec spec(window);
      const bool transitions = std::holds_alternative<Transitions>(window);
      EXPECT_EQ(has_returns(window), transitions);
      EXPECT_EQ(sequence_steps(window), transitions ? 0U : 4U);
      EXPECT_FALSE(continues(window));
      EXPECT_EQ(item_every(window), spec.item_every());
      for (std::size_t steps = 1; steps < 20; ++steps) {
        std::size_t going_on = 0;
        std::size_t ended = 0;
        for (std::size_t p = 0; p < steps; ++p) {
          const auto length =
              static_cast<std::uint32_t>(std::min<std::size_t>(spec.ahead(), steps - p));
          going_on += length == spec.ahead() && spec.begins_item(p, length, false) ? 1U : 0U;
          ended += spec.begins_item(p, length, p + length == steps) ? 1U : 0U;
        }
        EXPECT_EQ(items_of_episode(window, steps, End::Continue), going_on) << steps;
        EXPECT_EQ(items_of_episode(window, steps, End::Truncated), ended) << steps;
      }
    }
  }
}

TEST(WindowSpec, EveryStepBeginsASequenceOfPeriodOneUnlessShortOnesAreDropped) {
  const auto every = [](SequenceEnd end) {
    return WindowSpec(Sequences{.length = 4, .period = 1, .end = end}).every_step();
  };
  EXPECT_TRUE(every(SequenceEnd::ZeroPad));
  EXPECT_FALSE(every(SequenceEnd::Drop));
  EXPECT_FALSE(every(SequenceEnd::Overlap));
}

TEST(WindowSpec, ItemsBeginWithMultiplesOfItemEveryAlone) {
  for (std::uint32_t period = 1; period <= 5; ++period) {
    for (const SequenceEnd end : {SequenceEnd::ZeroPad, SequenceEnd::Drop, SequenceEnd::Overlap}) {
      const WindowSpec window(Sequences{.length = 3, .period = period, .burn_in = 1, .end = end});
      EXPECT_EQ(window.item_every(), end == SequenceEnd::Overlap ? 1 : period);
      for (std::uint64_t position = 0; position < 20; ++position) {
        for (std::uint32_t length = 1; length <= 4; ++length) {
          for (const bool ends : {false, true}) {
            EXPECT_TRUE(position % window.item_every() == 0 ||
                        !window.begins_item(position, length, ends));
          }
        }
      }
    }
  }
}

TEST(WindowSpec, TakesTheWholeRangeItNames) {
  EXPECT_EQ(spec(65535, 65535).min_chunk_rows(), 131070U);
  EXPECT_NO_THROW(WindowSpec(Transitions{.discount = 0.0F}));
  EXPECT_NO_THROW(WindowSpec(Transitions{.discount = 1.0F}));
}

TEST(WindowSpec, RefusesWhatCannotBeNamingOptionAndValue) {
  for (const std::uint32_t value : {0U, 65536U}) {
    const std::string text = "is " + testing::PrintToString(value) + ";";
    expect_refusal([&] { spec(value, 1); }, {"Transitions::n_step", text, "1 to 65535"});
    expect_refusal([&] { spec(1, value); }, {"Transitions::frame_stack", text, "1 to 65535"});
  }
  expect_refusal([] { WindowSpec(Sequences{.length = 0}); },
                 {"Sequences::length is 0;", "1 to 65535"});
  expect_refusal([] { WindowSpec(Sequences{.length = 65536}); }, {"Sequences::length is 65536;"});
  expect_refusal([] { WindowSpec(Sequences{.period = 0}); },
                 {"Sequences::period is 0;", "at least 1"});
  expect_refusal([] { WindowSpec(Sequences{.length = 40000, .burn_in = 25536}); },
                 {"Sequences::burn_in is 25536;", "0 to 65535 - length"});
  EXPECT_NO_THROW(WindowSpec(Sequences{.length = 40000, .burn_in = 25535}));
  for (const std::uint32_t value : {0U, 65536U}) {
    expect_refusal(
        [&] { WindowSpec(Sequences{.frame_stack = value}); },
        {"Sequences::frame_stack is " + testing::PrintToString(value) + ";", "1 to 65535"});
  }
  expect_refusal([] { WindowSpec(Sequences{.stack_start = static_cast<StackStart>(2)}); },
                 {"Sequences::stack_start is 2;", "repeat_first, zeros"});
  expect_refusal([] { WindowSpec(Sequences{.n_step = 65536}); },
                 {"Sequences::n_step is 65536;", "0 to 65535"});
  for (const float value : {-0.5F, 1.5F, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    expect_refusal([&] { WindowSpec(Transitions{.discount = value}); },
                   {"Transitions::discount", testing::PrintToString(value), "0 to 1"});
    expect_refusal([&] { WindowSpec(Sequences{.discount = value}); },
                   {"Sequences::discount", testing::PrintToString(value), "0 to 1"});
  }
}

// A chunk that several writers leave open can take over several episodes, each with its frame
// stack, and then holds fewer items than promised. Each such stack comes from another chunk, which
// was closed, so over all chunks there is at most one stack per chunk, and the promise holds on
// average. Therefore the rows of all stacks but one count as if items used them.
TEST(WindowSpec, NoPatternOfEpisodesFillsAChunkWithFewerItemsThanPromised) {
  for (std::uint32_t n_step = 1; n_step <= 4; ++n_step) {
    for (std::uint32_t frame_stack = 1; frame_stack <= 4; ++frame_stack) {
      const WindowSpec window = spec(n_step, frame_stack);
      for (std::uint32_t rows = window.min_chunk_rows(); rows <= 24; ++rows) {
        SCOPED_TRACE(testing::Message() << "n_step " << n_step << ", frame_stack " << frame_stack
                                        << ", " << rows << " rows in a chunk");
        const FilledChunks chunks(n_step, frame_stack, rows);
        ASSERT_LE(chunks.fewest_items(), rows);
        EXPECT_GE(chunks.fewest_items(), window.min_items(rows));
        EXPECT_GE(chunks.fewest_rows_explained(), 2 * window.min_items(rows));
      }
    }
  }
}

TEST(WindowSpec, ThePromiseIsTightWhereEpisodesOfOneStepFillOddChunks) {
  for (std::uint32_t rows = 3; rows <= 25; rows += 2) {
    EXPECT_EQ(spec(1, 1).min_items(rows), FilledChunks(1, 1, rows).fewest_items()) << rows;
  }
}

}  // namespace
}  // namespace reprise::window
