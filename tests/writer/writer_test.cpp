#include "testing/fixtures/not_finite.hpp"
#include "testing/test.hpp"

namespace reprise::test {
namespace {

Options n_step_options(std::uint32_t n_step) {
  return SmallOptions{.window = Transitions{.n_step = n_step, .discount = 0.5F}, .chunk_steps = 16};
}

TEST(Writer, RefusesToAppendOutsideAnEpisode) {
  NumberedBuffer line;
  Writer writer = line.replay.writer();
  EXPECT_FALSE(writer.in_episode());
  expect_refusal<std::logic_error>([&] { (void)writer.now(line.id); }, {"begin_episode"});
  expect_refusal<std::logic_error>([&] { (void)writer.next(line.id); }, {"begin_episode"});
  expect_refusal<std::logic_error>([&] { (void)writer.commit(); }, {"begin_episode"});
  EXPECT_EQ(line.append(writer, 0, End::Terminated), CommitStatus::Committed);
  EXPECT_FALSE(writer.in_episode());
  expect_refusal<std::logic_error>([&] { (void)writer.now(line.id); }, {"begin_episode"});
  expect_refusal<std::logic_error>([&] { (void)writer.commit(); }, {"begin_episode"});
  EXPECT_EQ(line.replay.stats().committed_steps, 1U);
}

TEST(Writer, RefusesAnEndThatDoesNotExist) {
  NumberedBuffer line;
  Writer writer = line.replay.writer();
  line.append_many(writer, 0, 3);
  const std::uint64_t episode = writer.episode_id();
  writer.now(line.action) = 3;
  writer.now(line.reward) = 3.0F;
  writer.next(line.id) = 4;
  const auto none = static_cast<End>(3);
  const auto words = {std::string_view("end is 3"), std::string_view("Truncated (2)")};
  expect_refusal([&] { (void)writer.commit(none); }, words);
  expect_refusal(
      [&] {
        (void)writer.add_transition(none, now(line.id, 70), now(line.action, 70),
                                    now(line.reward, 1.0F), next(line.id, 71));
      },
      words);
  EXPECT_EQ(writer.episode_id(), episode) << "no episode has begun";
  EXPECT_EQ(writer.commit(), CommitStatus::Committed);
  EXPECT_EQ(line.numbers(), number_range(0, 4));
}

TEST(Writer, NamesTheFieldLeftUnwrittenAndKeepsTheStepToBeMended) {
  NumberedBuffer line;
  Writer writer = line.replay.writer();
  writer.begin_episode();
  writer.now(line.action) = 3;
  writer.now(line.reward) = 3.0F;
  writer.next(line.id) = 4;
  expect_refusal<std::logic_error>([&] { (void)writer.commit(); }, {"id"});
  writer.now(line.id) = 3;
  EXPECT_EQ(writer.commit(), CommitStatus::Committed);

  writer.now(line.action) = 4;
  writer.next(line.id) = 5;
  expect_refusal<std::logic_error>([&] { (void)writer.commit(); }, {"reward"});
  writer.now(line.reward) = 4.0F;
  EXPECT_EQ(writer.commit(), CommitStatus::Committed)
      << "the next observation has become the current one";

  writer.now(line.action) = 5;
  writer.now(line.reward) = 5.0F;
  expect_refusal<std::logic_error>([&] { (void)writer.commit(End::Truncated); }, {"id"});
  EXPECT_TRUE(writer.in_episode());
  EXPECT_EQ(writer.episode_steps(), 2U);
  writer.next(line.id) = 6;
  EXPECT_EQ(writer.commit(End::Truncated), CommitStatus::Committed);

  EXPECT_EQ(line.numbers(), number_range(3, 6));
  EXPECT_EQ(line.replay.stats().committed_steps, 3U);
}

TEST(Writer, ACommitMakesTheNextObservationTheCurrentOne) {
  NumberedBuffer line;
  Writer writer = line.replay.writer();
  line.append(writer, 41);
  EXPECT_EQ(std::as_const(writer).episode_steps(), 1U);
  EXPECT_EQ(writer.now(line.id), 42U);
}

TEST(Writer, RefusesTheWrongNumberOfPriorities) {
  NumberedBuffer line(n_step_options(2));
  Writer writer = line.replay.writer();
  const std::array<float, 3> ones = {1.0F, 1.0F, 1.0F};
  const auto commit = [&](End end, std::size_t count) {
    (void)line.append(writer, writer.episode_steps(), end, std::span(ones).first(count));
  };
  expect_refusal([&] { commit(End::Continue, 1); }, {"1", "0"});
  EXPECT_EQ(writer.episode_steps(), 0U);
  line.append(writer, 0);
  expect_refusal([&] { commit(End::Continue, 2); }, {"2", "1"});
  expect_refusal([&] { commit(End::Terminated, 3); }, {"3", "2"});
  expect_refusal([&] { commit(End::Terminated, 1); }, {"1", "2"});
  EXPECT_EQ(writer.episode_steps(), 1U);
  EXPECT_EQ(line.replay.stats().committed_steps, 1U);
  commit(End::Terminated, 2);
  EXPECT_EQ(line.replay.size(), 2U);
}

TEST(Writer, RefusesABadPriorityAndKeepsTheStepToBeMended) {
  NumberedBuffer line(n_step_options(2));
  Writer writer = line.replay.writer();
  line.append(writer, 0);
  for (const float bad : {kNaN, kInfinity, -kInfinity, -1.0F, -1e-30F}) {
    SCOPED_TRACE(bad);
    const std::array<float, 2> priorities = {1.0F, bad};
    expect_refusal([&] { (void)line.append(writer, 1, End::Truncated, priorities); },
                   {"priorit", "1"});
    EXPECT_EQ(line.replay.size(), 0U);
    EXPECT_EQ(line.replay.stats().committed_steps, 1U);
    EXPECT_TRUE(writer.in_episode());
  }
  const std::array<float, 2> good = {1.0F, 0.0F};
  EXPECT_EQ(writer.commit(End::Truncated, good), CommitStatus::Committed);
  EXPECT_EQ(line.replay.size(), 2U);
  EXPECT_EQ(line.probabilities(), (std::map<std::uint64_t, double>{{0, 1.0}}));
}

TEST(Writer, RefusesAPriorityWhoseWeightOverflows) {
  NumberedBuffer line(SmallOptions{.selectors = {Proportional{.alpha = 8.0F, .epsilon = 0.0F}}});
  Writer writer = line.replay.writer();
  EXPECT_THROW((void)line.append(writer, 0, 1e30F), std::invalid_argument);
  EXPECT_EQ(writer.episode_steps(), 0U);
  EXPECT_EQ(line.append(writer, 0, 1e3F), CommitStatus::Committed);
  EXPECT_EQ(line.probabilities().at(0), 1.0);
}

TEST(Writer, RefusesADiscountOutsideZeroToOne) {
  Schema schema;
  const Discount discount = schema.discount("discount");
  ReplayBuffer replay(schema, SmallOptions{});
  Writer writer = replay.writer();
  writer.begin_episode();
  for (const float bad : {-0.5F, 1.5F, kNaN}) {
    SCOPED_TRACE(bad);
    writer.now(discount) = bad;
    expect_refusal([&] { (void)writer.commit(); }, {"discount"});
    EXPECT_EQ(writer.episode_steps(), 0U);
  }
  writer.now(discount) = 1.0F;
  EXPECT_EQ(writer.commit(), CommitStatus::Committed);
  EXPECT_EQ(replay.size(), 1U);
}

TEST(Writer, MovesWithItsEpisode) {
  NumberedBuffer line;
  Writer writer = line.replay.writer();
  line.append(writer, 0);
  Writer moved = std::move(writer);
  EXPECT_TRUE(moved.in_episode());
  line.append(moved, 1, End::Terminated);
  EXPECT_EQ(line.numbers(), number_range(0, 2));
  EXPECT_EQ(line.replay.stats().writers, 1U);
  moved = line.replay.writer();
  EXPECT_EQ(line.replay.stats().writers, 1U) << "the writer that was assigned over is destroyed";
}

}  // namespace
}  // namespace reprise::test
