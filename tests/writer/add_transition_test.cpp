#include <reprise/reprise.hpp>

#include "testing/fixtures/line.hpp"
#include "testing/fixtures/refusal.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <stdexcept>

namespace reprise::test {
namespace {

/// A buffer of transitions (s, a, r, s') between states of two numbers.
class AddTransition : public testing::Test {
 protected:
  using State = std::array<float, 2>;

  AddTransition() : replay_(schema_, options()), writer_(replay_.writer()) {}

  static Options options() {
    return Small{.window = Transitions{.n_step = 3, .discount = 0.5F, .frame_stack = 2},
                 .chunk_steps = 9};
  }

  CommitStatus add(const State& from, std::int32_t action, float reward, const State& to, End end) {
    return writer_.add_transition(end, now(state_, from), now(action_, action),
                                  now(reward_, reward), next(state_, to));
  }
  /// Step t of a line: from {line, t} to {line, t + 1}, earning t.
  CommitStatus add_on_line(int line, int t, End end = End::Continue) {
    const State from = {static_cast<float>(line), static_cast<float>(t)};
    const State to = {static_cast<float>(line), static_cast<float>(t + 1)};
    return add(from, t, static_cast<float>(t), to, end);
  }

  Schema schema_;
  Observation<float> state_ = schema_.observation<float>("state", {2});
  ScalarColumn<std::int32_t> action_ = schema_.column<std::int32_t>("action");
  Reward reward_ = schema_.reward("reward");
  ReplayBuffer replay_;
  Writer writer_;
};

TEST_F(AddTransition, ContinuesTheEpisodeWhereStatesMeet) {
  for (int t = 0; t < 20; ++t) {
    ASSERT_EQ(add_on_line(1, t, t == 19 ? End::Terminated : End::Continue),
              CommitStatus::Committed);
    EXPECT_EQ(writer_.episode_steps(), static_cast<std::uint64_t>(t + 1));
  }
  EXPECT_EQ(replay_.size(), 20U);
  Sampler sampler = replay_.sampler();
  const SampleResult batch = require_batch(sampler.sample(256));
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const auto t = static_cast<float>(batch->positions()[i]);
    const auto length = std::min(3.0F, 20.0F - t);
    const auto now = batch->now(state_).subspan(4 * i, 4);
    const auto next = batch->next(state_).subspan(4 * i, 4);
    EXPECT_EQ(now[1], std::max(0.0F, t - 1.0F)) << "the stack goes back within the episode";
    EXPECT_EQ(now[3], t);
    EXPECT_EQ(next[3], t + length);
    EXPECT_EQ(batch->discounts()[i], t + 3.0F >= 20.0F ? 0.0F : 0.125F);
    EXPECT_EQ(batch->now(action_)[i], static_cast<std::int32_t>(t));
    EXPECT_EQ(batch->episode_ids()[i], writer_.episode_id());
  }
}

TEST_F(AddTransition, BeginsAnEpisodeWhereStatesDoNotMeetAndTruncatesTheOld) {
  add_on_line(1, 0);
  add_on_line(1, 1);
  const std::uint64_t first = writer_.episode_id();
  add_on_line(2, 7, End::Terminated);
  const std::uint64_t second = writer_.episode_id();
  EXPECT_NE(first, second);
  EXPECT_EQ(replay_.size(), 3U);
  expect_accounted(replay_);
  Sampler sampler = replay_.sampler();
  const SampleResult batch = require_batch(sampler.sample(64));
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const auto now = batch->now(state_).subspan(4 * i, 4);
    const auto next = batch->next(state_).subspan(4 * i, 4);
    if (batch->episode_ids()[i] == first) {
      const auto t = static_cast<float>(batch->positions()[i]);
      EXPECT_EQ(next[2], 1.0F);
      EXPECT_EQ(next[3], 2.0F);
      EXPECT_EQ(batch->discounts()[i], std::pow(0.5F, 2.0F - t));
    } else {
      EXPECT_EQ(now[2], 2.0F);
      EXPECT_EQ(next[3], 8.0F);
      EXPECT_EQ(batch->discounts()[i], 0.0F);
    }
  }
}

TEST_F(AddTransition, AfterAnEndAlwaysBeginsAnEpisode) {
  const State loop = {1.0F, 1.0F};
  std::set<std::uint64_t> episodes;
  for (int i = 0; i < 5; ++i) {
    add(loop, i, 0.0F, loop, End::Terminated);
    EXPECT_EQ(writer_.episode_steps(), 1U);
    episodes.insert(writer_.episode_id());
  }
  EXPECT_EQ(episodes.size(), 5U);
  EXPECT_EQ(replay_.size(), 5U);
}

TEST_F(AddTransition, ComparesStatesByteForByte) {
  add({0.0F, 0.0F}, 0, 0.0F, {0.0F, 0.0F}, End::Continue);
  const std::uint64_t first = writer_.episode_id();
  add({0.0F, -0.0F}, 0, 0.0F, {0.0F, std::nanf("")}, End::Continue);
  EXPECT_NE(writer_.episode_id(), first) << "-0 is equal to 0, but not the same bytes";
  const std::uint64_t second = writer_.episode_id();
  add({0.0F, std::nanf("")}, 0, 0.0F, {0.0F, 0.0F}, End::Continue);
  EXPECT_EQ(writer_.episode_id(), second) << "NaN is unequal to itself, but the same bytes";
}

TEST(AddTransitionOfTwoObservations, BeginsAnEpisodeUnlessBothMeet) {
  Schema schema;
  const auto one = schema.observation<float>("one");
  const auto other = schema.observation<float>("other");
  ReplayBuffer replay(schema, Small{});
  Writer writer = replay.writer();
  std::set<std::uint64_t> episodes;
  const auto add = [&](float first, float second) {
    writer.add_transition(End::Continue, now(one, first), now(other, second), next(one, 1.0F),
                          next(other, 1.0F));
    episodes.insert(writer.episode_id());
    return episodes.size();
  };
  EXPECT_EQ(add(0.0F, 0.0F), 1U);
  EXPECT_EQ(add(1.0F, 1.0F), 1U);
  EXPECT_EQ(add(1.0F, 2.0F), 2U);
  EXPECT_EQ(add(2.0F, 1.0F), 3U);
}

TEST_F(AddTransition, RefusesAFieldThatIsNotNamedAndTakesNothing) {
  const State from = {0.0F, 0.0F};
  const State to = {0.0F, 1.0F};
  expect_refusal<std::invalid_argument>(
      [&] {
        (void)writer_.add_transition(End::Continue, now(state_, from), now(action_, 1),
                                     next(state_, to));
      },
      {"reward"});
  expect_refusal<std::invalid_argument>(
      [&] {
        (void)writer_.add_transition(End::Continue, now(state_, from), now(action_, 1),
                                     now(reward_, 1.0F));
      },
      {"state"});
  expect_refusal<std::invalid_argument>(
      [&] {
        (void)writer_.add_transition(End::Continue, now(action_, 1), now(reward_, 1.0F),
                                     next(state_, to));
      },
      {"state"});
  EXPECT_EQ(replay_.stats().committed_steps, 0U);
  EXPECT_EQ(add(from, 0, 0.0F, to, End::Terminated), CommitStatus::Committed);
  EXPECT_EQ(replay_.size(), 1U);
}

TEST_F(AddTransition, RefusesARowOfAnotherLength) {
  const std::array<float, 3> three = {0.0F, 0.0F, 0.0F};
  const State to = {0.0F, 1.0F};
  expect_refusal<std::invalid_argument>(
      [&] {
        (void)writer_.add_transition(End::Continue, now(state_, three), now(action_, 1),
                                     now(reward_, 1.0F), next(state_, to));
      },
      {"state", "3", "2"});
  EXPECT_EQ(replay_.stats().committed_steps, 0U);
}

TEST_F(AddTransition, RefusesHandlesOfAnotherSchema) {
  Schema other;
  const auto strange = other.observation<double>("strange", {2});
  const std::array<double, 2> row = {0.0, 0.0};
  const State to = {0.0F, 1.0F};
  EXPECT_THROW((void)writer_.add_transition(End::Continue, now(strange, row), now(action_, 1),
                                            now(reward_, 1.0F), next(state_, to)),
               std::invalid_argument);
  EXPECT_EQ(replay_.stats().committed_steps, 0U);
}

TEST(AddTransitionThatIsRefused, CutsNoEpisode) {
  Schema schema;
  const auto state = schema.observation<float>("state");
  const auto discount = schema.discount("discount");
  ReplayBuffer replay(schema,
                      Small{.window = Transitions{.n_step = 2},
                            .selectors = {Proportional{.initial = InitialPriority::FromCaller}}});
  Writer writer = replay.writer();
  const auto add = [&](float from, float kept, End end) {
    return writer.add_transition(end, now(state, from), now(discount, kept),
                                 next(state, from + 1.0F));
  };
  ASSERT_EQ(add(1.0F, 1.0F, End::Continue), CommitStatus::Committed);
  const std::uint64_t episode = writer.episode_id();
  for (const float kept : {-1.0F, 2.0F, std::nanf("")}) {
    expect_refusal<std::invalid_argument>(
        [&] { static_cast<void>(add(7.0F, kept, End::Continue)); }, {"discount", "0 to 1"});
    EXPECT_EQ(writer.episode_id(), episode);
  }
  expect_refusal<std::invalid_argument>(
      [&] { static_cast<void>(add(7.0F, 1.0F, End::Terminated)); }, {"FromCaller", "1 items"});
  EXPECT_EQ(writer.episode_id(), episode);
  EXPECT_EQ(writer.episode_steps(), 1U);
  EXPECT_TRUE(writer.in_episode());
  EXPECT_EQ(replay.stats().pending_steps, 1U);
  ASSERT_EQ(add(7.0F, 1.0F, End::Continue), CommitStatus::Committed);
  EXPECT_NE(writer.episode_id(), episode);
}

TEST_F(AddTransition, SaysClosed) {
  add_on_line(0, 0);
  replay_.close();
  EXPECT_EQ(add_on_line(0, 1), CommitStatus::Closed);
  EXPECT_EQ(replay_.stats().committed_steps, 1U);
}

}  // namespace
}  // namespace reprise::test
