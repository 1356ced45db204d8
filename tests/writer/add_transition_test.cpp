#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// A buffer of transitions (s, a, r, s'), whose states have two numbers.
class AddTransition : public testing::Test {
 protected:
  using State = std::array<float, 2>;

  AddTransition() : replay_(schema_, SmallOptions{}), writer_(replay_.writer()) {}

  CommitStatus add(const State& from, std::int32_t action, float reward, const State& to, End end) {
    return writer_.add_transition(end, now(state_, from), now(action_, action),
                                  now(reward_, reward), next(state_, to));
  }

  Schema schema_;
  Observation<float> state_ = schema_.observation<float>("state", {2});
  ScalarColumn<std::int32_t> action_ = schema_.column<std::int32_t>("action");
  Reward reward_ = schema_.reward("reward");
  ReplayBuffer replay_;
  Writer writer_;
};

TEST_F(AddTransition, ComparesStatesByteForByte) {
  add({0.0F, 0.0F}, 0, 0.0F, {0.0F, 0.0F}, End::Continue);
  const std::uint64_t first = writer_.episode_id();
  add({0.0F, -0.0F}, 0, 0.0F, {0.0F, std::nanf("")}, End::Continue);
  EXPECT_NE(writer_.episode_id(), first) << "-0 is equal to 0, but not the same bytes";
  const std::uint64_t second = writer_.episode_id();
  add({0.0F, std::nanf("")}, 0, 0.0F, {0.0F, 0.0F}, End::Continue);
  EXPECT_EQ(writer_.episode_id(), second) << "NaN is unequal to itself, but the same bytes";
}

TEST_F(AddTransition, RefusesAFieldThatIsNotNamedAndTakesNothing) {
  const State from = {0.0F, 0.0F};
  const State to = {0.0F, 1.0F};
  expect_refusal(
      [&] {
        (void)writer_.add_transition(End::Continue, now(state_, from), now(action_, 1),
                                     next(state_, to));
      },
      {"reward"});
  expect_refusal(
      [&] {
        (void)writer_.add_transition(End::Continue, now(state_, from), now(action_, 1),
                                     now(reward_, 1.0F));
      },
      {"state"});
  expect_refusal(
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
  expect_refusal(
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
  ReplayBuffer replay(
      schema, SmallOptions{.window = Transitions{.n_step = 2},
                           .selectors = {Proportional{.initial = InitialPriority::FromCaller}}});
  Writer writer = replay.writer();
  const auto add = [&](float from, float kept, End end) {
    return writer.add_transition(end, now(state, from), now(discount, kept),
                                 next(state, from + 1.0F));
  };
  ASSERT_EQ(add(1.0F, 1.0F, End::Continue), CommitStatus::Committed);
  const std::uint64_t episode = writer.episode_id();
  for (const float kept : {-1.0F, 2.0F, std::nanf("")}) {
    expect_refusal([&] { (void)add(7.0F, kept, End::Continue); }, {"discount", "0 to 1"});
    EXPECT_EQ(writer.episode_id(), episode);
  }
  expect_refusal([&] { (void)add(7.0F, 1.0F, End::Terminated); }, {"FromCaller", "1 items"});
  EXPECT_EQ(writer.episode_id(), episode);
  EXPECT_EQ(writer.episode_steps(), 1U);
  EXPECT_TRUE(writer.in_episode());
  EXPECT_EQ(replay.stats().pending_steps, 1U);
  ASSERT_EQ(add(7.0F, 1.0F, End::Continue), CommitStatus::Committed);
  EXPECT_NE(writer.episode_id(), episode);
}

TEST_F(AddTransition, SaysClosed) {
  add({0.0F, 0.0F}, 0, 0.0F, {0.0F, 1.0F}, End::Continue);
  replay_.close();
  EXPECT_EQ(add({0.0F, 1.0F}, 0, 0.0F, {0.0F, 2.0F}, End::Continue), CommitStatus::Closed);
  EXPECT_EQ(replay_.stats().committed_steps, 1U);
}

}  // namespace
}  // namespace reprise::test
