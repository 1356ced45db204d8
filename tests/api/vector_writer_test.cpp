#include "testing/test.hpp"

namespace reprise::test {
namespace {

/// A buffer with a vector writer for three environments. An observation is (environment, time); in
/// episode k, time begins at 100 k.
class VectorBuffer {
 public:
  static constexpr std::size_t kEnvironments = 3;

  explicit VectorBuffer(Options options = default_options(), const WriterOptions& writer = {})
      : replay(schema, options), writers(replay, kEnvironments, writer) {
    writers.now(state, states());
  }

  static Options default_options() {
    return Options{.capacity_steps = 4096,
                   .window = Transitions{.n_step = 2, .discount = 0.5F},
                   .selectors = {Proportional{.alpha = 1.0F, .epsilon = 0.0F}},
                   .max_writers = 8,
                   .shards = 1,
                   .key_tag = 5};
  }

  std::vector<float> states() const {
    std::vector<float> rows;
    for (std::size_t e = 0; e < kEnvironments; ++e) {
      rows.push_back(static_cast<float>(e));
      rows.push_back(times[e]);
    }
    return rows;
  }

  /// Writes the columns and the next observations of one step of all environments.
  void write_step() {
    std::vector<std::int32_t> actions;
    std::vector<float> rewards;
    std::vector<float> next = states();
    for (std::size_t e = 0; e < kEnvironments; ++e) {
      actions.push_back(static_cast<std::int32_t>(times[e]));
      rewards.push_back(times[e] + 1000.0F * static_cast<float>(e));
      next[2 * e + 1] += 1.0F;
    }
    writers.now(action, actions);
    writers.now(reward, rewards);
    writers.next(state, next);
  }

  /// Advances the environments after steps with these ends, and writes their present observations.
  void advance(std::span<const End> ends) {
    for (std::size_t e = 0; e < kEnvironments; ++e) {
      if (ends[e] == End::Continue) {
        times[e] += 1.0F;
      } else {
        times[e] = 100.0F * static_cast<float>(++episodes[e]);
      }
    }
    writers.now(state, states());
  }

  /// Commits three steps of each environment, and writes the fourth step without committing it.
  void write_fourth_step() {
    for (int t = 0; t < 3; ++t) {
      write_step();
      ASSERT_EQ(writers.commit(continue_all), CommitStatus::Committed);
      advance(continue_all);
    }
    write_step();
  }
  /// Commits the fourth step: the limiter lets it through in the first environment and holds it in
  /// the second. Then draws, so that the limiter lets the rest through.
  void hold_second_environment() {
    ASSERT_NO_FATAL_FAILURE(write_fourth_step());
    ASSERT_EQ(writers.commit(continue_all), CommitStatus::TimedOut);
    ASSERT_EQ(replay.stats().committed_steps, 10U) << "and the first environment's fourth step";
    ASSERT_TRUE(as_lvalue(replay.sampler()).sample(6, kNoWait));
  }

  Schema schema;
  Observation<float> state = schema.observation<float>("state", {2});
  ScalarColumn<std::int32_t> action = schema.column<std::int32_t>("action");
  Reward reward = schema.reward("reward");
  ReplayBuffer replay;
  VectorWriter writers;
  const std::vector<End> continue_all = std::vector(kEnvironments, End::Continue);
  float times[kEnvironments] = {0.0F, 0.0F, 0.0F};
  int episodes[kEnvironments] = {0, 0, 0};
};

void expect_consistent(const VectorBuffer& world, const SampleResult& batch) {
  ASSERT_TRUE(batch) << batch.status().message();
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const float environment = batch->now(world.state)[2 * i];
    const float time = batch->now(world.state)[2 * i + 1];
    SCOPED_TRACE(testing::Message() << "environment " << environment << ", time " << time);
    const auto length = static_cast<float>(batch->lengths()[i]);
    EXPECT_EQ(batch->next(world.state)[2 * i], environment);
    EXPECT_EQ(batch->next(world.state)[2 * i + 1], time + length) << "the final observation, "
                                                                     "not the reset";
    EXPECT_EQ(static_cast<float>(batch->now(world.action)[i]), time);
    EXPECT_EQ(batch->now(world.reward)[i], time + 1000.0F * environment);
    EXPECT_EQ(static_cast<float>(batch->positions()[i]),
              time - 100.0F * static_cast<float>(static_cast<int>(time) / 100));
  }
}

/// Commits steps of random parts of the environments, and compares a batch of all items with a map
/// of the steps, by environment and time.
TEST(VectorWriter, CommitsForAPartOfTheEnvironmentsToTheirOwnEpisodes) {
  VectorBuffer world;
  // The reward and end of each step.
  std::map<std::pair<float, float>, std::pair<float, End>> steps;
  Rng rng(8);
  for (int t = 0; t < 300; ++t) {
    std::vector<std::size_t> part{0, 1, 2};
    std::shuffle(part.begin(), part.end(), std::mt19937(static_cast<unsigned>(t)));
    part.resize(rng.below(4));
    world.writers.choose(part);
    ASSERT_TRUE(std::ranges::equal(world.writers.chosen(), part));
    std::vector<End> ends;
    std::vector<std::int32_t> actions;
    std::vector<float> rewards;
    std::vector<float> next;
    for (const std::size_t e : part) {
      ends.push_back(rng.chance(0.1) ? End::Terminated : End::Continue);
      actions.push_back(static_cast<std::int32_t>(world.times[e]));
      rewards.push_back(world.times[e] + 1000.0F * static_cast<float>(e));
      next.insert(next.end(), {static_cast<float>(e), world.times[e] + 1.0F});
      steps[{static_cast<float>(e), world.times[e]}] = {rewards.back(), ends.back()};
    }
    const AnyField any = *world.schema.find("action");
    rng.chance(0.5) ? world.writers.now(world.action, actions)
                    : world.writers.now(any, std::as_bytes(std::span(actions)));
    world.writers.now(world.reward, rewards);
    rng.chance(0.5)
        ? world.writers.next(world.state, next)
        : world.writers.next(*world.schema.find("state"), std::as_bytes(std::span(next)));
    ASSERT_EQ(world.writers.commit(ends), CommitStatus::Committed);
    next.clear();
    for (std::size_t i = 0; i < part.size(); ++i) {
      float& time = world.times[part[i]];
      time = ends[i] == End::Continue ? time + 1.0F
                                      : 100.0F * static_cast<float>(++world.episodes[part[i]]);
      next.insert(next.end(), {static_cast<float>(part[i]), time});
    }
    world.writers.now(world.state, next);
  }
  ASSERT_EQ(world.replay.stats().committed_steps, steps.size());
  const std::vector<End> cut(3, End::Truncated);
  world.writers.choose_all();
  ASSERT_EQ(world.writers.chosen().size(), 3U);
  world.write_step();
  for (std::size_t e = 0; e < 3; ++e) {
    steps[{static_cast<float>(e), world.times[e]}] = {
        world.times[e] + 1000.0F * static_cast<float>(e), End::Truncated};
  }
  ASSERT_EQ(world.writers.commit(cut), CommitStatus::Committed);
  expect_steps_add_up(world.replay);
  Sampler sampler = world.replay.sampler();
  const SampleResult batch =
      sampler.sample(steps.size(), {.draws = Draws::WithoutReplacement, .timeout = 0ns});
  ASSERT_NO_FATAL_FAILURE(expect_consistent(world, batch));
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const auto row = batch->now(world.state).subspan(2 * i, 2);
    const auto step = steps.find({row[0], row[1]});
    ASSERT_NE(step, steps.end());
    const auto [reward, end] = step->second;
    EXPECT_EQ(batch->now(world.reward)[i], reward);
    EXPECT_EQ(batch->lengths()[i] == 1 && batch->discounts()[i] == 0.0F, end == End::Terminated);
    steps.erase(step);
  }
  EXPECT_TRUE(steps.empty()) << "each step is an item once";
}

TEST(VectorWriter, RefusesUnknownAndRepeatedEnvironmentsAndChangesNothing) {
  VectorBuffer world;
  const std::array<std::size_t, 2> part{2, 0};
  world.writers.choose(part);
  const std::array<std::size_t, 2> beyond{1, 3};
  expect_refusal([&] { world.writers.choose(beyond); }, {"environment 3", "0 to 2"});
  const std::array<std::size_t, 2> twice{1, 1};
  expect_refusal([&] { world.writers.choose(twice); }, {"environment 1", "twice"});
  EXPECT_TRUE(std::ranges::equal(world.writers.chosen(), part));
  const std::vector<std::int32_t> three(3);
  EXPECT_THROW(world.writers.now(world.action, three), std::invalid_argument);
  EXPECT_NO_THROW(world.writers.now(world.action, std::span(three).first(2)));
}

TEST(VectorWriter, TakesThePrioritiesOfOneEnvironmentAfterTheOther) {
  VectorBuffer world;
  const std::vector<End>& continue_all = world.continue_all;
  const std::vector<End> mixed = {End::Continue, End::Terminated, End::Continue};
  EXPECT_EQ(world.writers.completing(continue_all), 0U);
  EXPECT_EQ(world.writers.completing(mixed), 1U);
  world.write_step();
  ASSERT_EQ(world.writers.commit(continue_all), CommitStatus::Committed);
  world.advance(continue_all);
  EXPECT_EQ(world.writers.completing(continue_all), 3U);
  EXPECT_EQ(world.writers.completing(mixed), 4U);
  world.write_step();
  const std::vector<float> priorities = {1, 2, 3, 4};
  ASSERT_EQ(world.writers.commit(mixed, priorities), CommitStatus::Committed);
  world.advance(mixed);
  ASSERT_EQ(world.replay.size(), 4U);
  Sampler sampler = world.replay.sampler();
  const SampleResult batch = require_batch(sampler.sample(100));
  const std::map<std::pair<float, float>, double> expected = {
      {{0, 0}, 0.1}, {{1, 0}, 0.2}, {{1, 1}, 0.3}, {{2, 0}, 0.4}};
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const auto row = batch->now(world.state).subspan(2 * i, 2);
    EXPECT_NEAR(batch->probabilities()[i], expected.at({row[0], row[1]}), 1e-14);
  }
}

TEST(VectorWriter, CommitsNoStepOfEnvironmentsThatAreBeingReset) {
  VectorBuffer world;
  const std::vector<End> ends(3, End::Terminated);
  world.write_step();
  ASSERT_EQ(world.writers.commit(ends), CommitStatus::Committed);
  world.advance(ends);
  const std::array<bool, 3> resets = {false, true, false};
  EXPECT_EQ(world.writers.completing(ends), 3U);
  EXPECT_EQ(world.writers.completing(ends, resets), 2U);
  world.write_step();
  const std::vector<float> priorities = {1, 2};
  ASSERT_EQ(world.writers.commit(ends, priorities, resets), CommitStatus::Committed);
  EXPECT_EQ(world.writers[1].episode_steps(), 0U);
  EXPECT_EQ(world.replay.stats().committed_steps, 5U);
  EXPECT_THROW((void)world.writers.commit(ends, {}, std::span(resets).first(2)),
               std::invalid_argument);
}

TEST(VectorWriter, RefusesArraysOfOtherShapesAndChangesNothing) {
  VectorBuffer world;
  const std::vector<float> too_few(2 * 2);
  const std::vector<float> too_many(4 * 2);
  const std::vector<float> odd(7);
  for (const auto& rows : {too_few, too_many, odd}) {
    const std::string count = std::to_string(rows.size());
    expect_refusal([&] { world.writers.now(world.state, rows); }, {"state", count});
    expect_refusal([&] { world.writers.next(world.state, rows); }, {"state", count});
    expect_refusal([&] { world.writers.now(world.reward, rows); }, {"reward", count});
  }
  world.write_step();
  const std::vector<End> two(2, End::Continue);
  const std::vector<End> four(4, End::Continue);
  EXPECT_THROW((void)world.writers.commit(two), std::invalid_argument);
  EXPECT_THROW((void)world.writers.commit(four), std::invalid_argument);
  EXPECT_THROW((void)world.writers.completing(two), std::invalid_argument);
  const std::vector<End> ended(3, End::Terminated);
  const std::vector<float> bad_priorities = {1.0F, 1.0F, -1.0F};
  expect_refusal([&] { (void)world.writers.commit(ended, bad_priorities); },
                 {"priorities[2]", "-1"});
  const std::vector<float> too_few_priorities = {1.0F, 1.0F};
  EXPECT_THROW((void)world.writers.commit(ended, too_few_priorities), std::invalid_argument);
  EXPECT_EQ(world.replay.stats().committed_steps, 0U)
      << "not even of the environments before the wrong one";
  ASSERT_EQ(world.writers.commit(ended), CommitStatus::Committed);
  EXPECT_EQ(world.replay.size(), 3U);
}

TEST(VectorWriter, NamesAFieldLeftUnwrittenBeforeAnyEnvironmentCommits) {
  VectorBuffer world;
  expect_refusal<std::logic_error>([&] { (void)world.writers.commit(world.continue_all); },
                                   {"action"});
  EXPECT_EQ(world.replay.stats().committed_steps, 0U);
  world.write_step();
  EXPECT_EQ(world.writers.commit(world.continue_all), CommitStatus::Committed);
}

TEST(VectorWriter, IsRefusedIfItsWritersWouldBeMoreThanMaxWriters) {
  VectorBuffer world;
  EXPECT_THROW(VectorWriter(world.replay, 6), std::runtime_error);
  EXPECT_EQ(world.replay.stats().writers, 3U) << "the refused vector writer keeps no writer";
  const VectorWriter five(world.replay, 5);
  EXPECT_EQ(world.replay.stats().writers, 8U);
}

TEST(VectorWriter, RefusesWritersOfAnotherSchemaOrWindowOrWithinAnEpisode) {
  NumberedBuffer line;
  VectorBuffer other;
  NumberedBuffer longer(SmallOptions{.window = Transitions{.n_step = 2}});
  const auto refuses = [&](Writer second, std::initializer_list<std::string_view> words) {
    std::vector<Writer> writers;
    writers.push_back(line.replay.writer());
    writers.push_back(std::move(second));
    expect_refusal([&] { (void)VectorWriter(std::move(writers)); }, words);
  };
  refuses(other.replay.writer(), {"VectorWriter", "writers[1]", "schema"});
  refuses(longer.replay.writer(), {"VectorWriter", "writers[1]", "window"});
  Writer within = line.replay.writer();
  within.begin_episode();
  refuses(std::move(within), {"VectorWriter", "writers[1]", "in an episode"});
}

TEST(VectorWriter, ARepeatedCommitAfterATimeoutCommitsEveryStepOnce) {
  Options options = VectorBuffer::default_options();
  options.rate_limiter =
      SampleToInsertRatio{.samples_per_insert = 1.0, .min_size = 4, .error_buffer = 32.0};
  VectorBuffer world(options, {.timeout = 1ms});
  Sampler sampler = world.replay.sampler();
  Rng rng(6);
  std::uint64_t repeats = 0;
  constexpr std::uint64_t kSteps = 400;
  for (std::uint64_t t = 0; t < kSteps; ++t) {
    world.write_step();
    std::vector<End> ends;
    for (std::size_t e = 0; e < 3; ++e) {
      ends.push_back(rng.chance(0.1) ? End::Truncated : End::Continue);
    }
    while (world.writers.commit(ends) == CommitStatus::TimedOut) {
      ++repeats;
      if (const SampleResult batch = sampler.sample(16, {.timeout = 0ns})) {
        expect_consistent(world, batch);
      }
    }
    world.advance(ends);
    ASSERT_EQ(world.replay.stats().committed_steps, 3 * (t + 1));
  }
  EXPECT_GT(repeats, 0U) << "the limiter held no commit, so the test shows nothing";
  expect_steps_add_up(world.replay);
}

/// Options whose limiter admits `inserts` inserts before anything is sampled.
Options options_for_inserts(double inserts) {
  Options options = VectorBuffer::default_options();
  options.rate_limiter =
      SampleToInsertRatio{.samples_per_insert = 1.0, .min_size = 1, .error_buffer = inserts - 1.0};
  return options;
}

TEST(VectorWriter, ARepeatedCommitGivesEachItemItsOwnPriority) {
  VectorBuffer world(options_for_inserts(10.0), {.timeout = 0ns});
  ASSERT_NO_FATAL_FAILURE(world.write_fourth_step());
  ASSERT_EQ(world.replay.size(), 6U);  // Each environment has two items of priority 1.

  // The first environment's step is the last that the limiter lets through.
  const std::vector<End> ends{End::Truncated, End::Continue, End::Terminated};
  const std::vector<float> priorities{3.0F, 5.0F, 7.0F, 11.0F, 13.0F};
  ASSERT_EQ(world.writers.completing(ends), priorities.size());
  EXPECT_EQ(world.writers.commit(ends, priorities), CommitStatus::TimedOut);
  EXPECT_EQ(world.replay.stats().committed_steps, 10U);
  Sampler sampler = world.replay.sampler();
  ASSERT_TRUE(sampler.sample(9, {.timeout = 0ns}));
  EXPECT_EQ(world.writers.commit(ends, priorities), CommitStatus::Committed);
  EXPECT_EQ(world.replay.stats().committed_steps, 12U);
  world.advance(ends);
  EXPECT_EQ(world.writers.completing(ends), 3U) << "the next commit is a new one";

  // The expected weights by environment and time; their sum is 45.
  const float weights[3][4] = {
      {1.0F, 1.0F, 3.0F, 5.0F}, {1.0F, 1.0F, 7.0F}, {1.0F, 1.0F, 11.0F, 13.0F}};
  const SampleResult batch = require_batch(sampler.sample(11, {.timeout = 0ns}));
  for (std::size_t i = 0; i < batch->size(); ++i) {
    const auto environment = static_cast<std::size_t>(batch->now(world.state)[2 * i]);
    const auto time = static_cast<std::size_t>(batch->now(world.state)[2 * i + 1]);
    EXPECT_NEAR(batch->probabilities()[i], weights[environment][time] / 45.0, 1e-6);
  }
}

TEST(VectorWriter, ACommitOfASingleWriterMakesTheNextCommitANewOne) {
  VectorBuffer world(options_for_inserts(10.0), {.timeout = 0ns});
  ASSERT_NO_FATAL_FAILURE(world.hold_second_environment());
  ASSERT_EQ(world.writers[1].commit(), CommitStatus::Committed);
  ASSERT_EQ(world.writers[2].commit(), CommitStatus::Committed);
  world.advance(world.continue_all);
  world.write_step();
  EXPECT_EQ(world.writers.commit(world.continue_all), CommitStatus::Committed);
  EXPECT_EQ(world.replay.stats().committed_steps, 15U) << "also the first environment's new step";
}

TEST(VectorWriter, ACommitOfOtherEnvironmentsIsANewOne) {
  VectorBuffer world(options_for_inserts(10.0), {.timeout = 0ns});
  ASSERT_NO_FATAL_FAILURE(world.hold_second_environment());
  const std::array<std::size_t, 2> part{2, 1};
  world.writers.choose(part);
  ASSERT_EQ(world.writers.commit(std::span(world.continue_all).first(2)), CommitStatus::Committed);
  EXPECT_EQ(world.writers[1].episode_steps(), 4U);
  EXPECT_EQ(world.writers[2].episode_steps(), 4U);
  world.writers.choose_all();
  world.advance(world.continue_all);
  world.write_step();
  ASSERT_EQ(world.writers.commit(world.continue_all), CommitStatus::Committed);
  EXPECT_EQ(world.replay.stats().committed_steps, 15U);
}

TEST(VectorWriter, ACommitOfTheSameEnvironmentsIsARepetition) {
  VectorBuffer world(options_for_inserts(10.0), {.timeout = 0ns});
  ASSERT_NO_FATAL_FAILURE(world.write_fourth_step());
  const std::array<std::size_t, 2> part{2, 1};
  const std::vector<End> continue_all(2, End::Continue);
  world.writers.choose(part);
  ASSERT_EQ(world.writers.commit(continue_all), CommitStatus::TimedOut);
  ASSERT_EQ(world.writers[2].episode_steps(), 4U);
  ASSERT_TRUE(as_lvalue(world.replay.sampler()).sample(6, {.timeout = 0ns}));
  world.writers.choose(part);
  ASSERT_EQ(world.writers.commit(continue_all), CommitStatus::Committed);
  EXPECT_EQ(world.writers[1].episode_steps(), 4U);
  EXPECT_EQ(world.writers[2].episode_steps(), 4U)
      << "the step was committed before, and is not repeated";
}

TEST(VectorWriter, MayCommitAnotherStepIfTheTimeoutCommittedNone) {
  VectorBuffer world(options_for_inserts(9.0), {.timeout = 0ns});
  ASSERT_NO_FATAL_FAILURE(world.write_fourth_step());
  const std::vector<float> three(3, 1.0F);
  ASSERT_EQ(world.writers.commit(world.continue_all, three), CommitStatus::TimedOut);
  ASSERT_EQ(world.replay.stats().committed_steps, 9U)
      << "no environment's fourth step is committed";
  ASSERT_TRUE(as_lvalue(world.replay.sampler()).sample(6, {.timeout = 0ns}));
  const std::vector<End> ends(3, End::Truncated);
  const std::vector<float> six(6, 1.0F);
  EXPECT_EQ(world.writers.commit(ends, six), CommitStatus::Committed);
  EXPECT_EQ(world.replay.stats().committed_steps, 12U);
}

TEST(VectorWriter, AsksTheHookOnceAndNotForEachEnvironment) {
  struct RefusingHook final : WaitHook {
    bool keep_waiting(std::chrono::nanoseconds) noexcept override {
      ++asked;
      return false;
    }
    int asked = 0;
  } hook;
  VectorBuffer world(options_for_inserts(10.0), {.hook = &hook});
  ASSERT_NO_FATAL_FAILURE(world.write_fourth_step());
  EXPECT_EQ(world.writers.commit(world.continue_all), CommitStatus::Stopped);
  EXPECT_EQ(hook.asked, 1) << "the third environment is not asked for";
}

TEST(VectorWriter, ReportsThatTheBufferIsClosed) {
  VectorBuffer world;
  world.write_step();
  world.replay.close();
  EXPECT_EQ(world.writers.commit(world.continue_all), CommitStatus::Closed);
  EXPECT_EQ(world.replay.stats().committed_steps, 0U);
}

}  // namespace
}  // namespace reprise::test
